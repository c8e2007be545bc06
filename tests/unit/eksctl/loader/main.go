// Command loader runs eksctl's own code over a ClusterConfig as `eksctl create cluster -f` does
// before it first talks to AWS: strict parsing, defaults, validation, and the user data of every
// managed node group. It prints the groups as JSON, or one error for each file.
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	api "github.com/weaveworks/eksctl/pkg/apis/eksctl.io/v1alpha5"
	"github.com/weaveworks/eksctl/pkg/nodebootstrap"
)

type group struct {
	Name          string               `json:"name"`
	AMIFamily     string               `json:"amiFamily"`
	InstanceTypes []string             `json:"instanceTypes"`
	Labels        map[string]string    `json:"labels"`
	Taints        []api.NodeGroupTaint `json:"taints"`
	VolumeSize    *int                 `json:"volumeSize"`
	Desired       *int                 `json:"desired"`
	Max           *int                 `json:"max"`
	UserData      string               `json:"userData"`
}

func parse(file string) (*api.ClusterConfig, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// runtime.Decode ignores unknown keys, so eksctl parses twice and keeps the second result.
	if err := yaml.UnmarshalStrict(data, &api.ClusterConfig{}); err != nil {
		return nil, err
	}
	object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), data)
	if err != nil {
		return nil, err
	}
	config, ok := object.(*api.ClusterConfig)
	if !ok {
		return nil, fmt.Errorf("%T is not a ClusterConfig", object)
	}
	return config, nil
}

func load(file string) ([]group, error) {
	config, err := parse(file)
	if err != nil {
		return nil, err
	}
	if config.Metadata == nil || config.Metadata.Name == "" || config.Metadata.Region == "" {
		return nil, fmt.Errorf("metadata.name and metadata.region must be set")
	}
	if config.VPC == nil {
		config.VPC = api.NewClusterVPC(false)
	}
	for _, addon := range config.Addons {
		if err := addon.Validate(); err != nil {
			return nil, err
		}
	}
	api.SetClusterConfigDefaults(config)
	if err := api.ValidateClusterConfig(config); err != nil {
		return nil, err
	}
	for i, nodes := range config.NodeGroups {
		if err := api.ValidateNodeGroup(i, nodes, config); err != nil {
			return nil, err
		}
	}
	config.Status = &api.ClusterStatus{} // known only once the cluster exists
	groups := []group{}
	for i, nodes := range config.ManagedNodeGroups {
		if err := api.SetManagedNodeGroupDefaults(nodes, config.Metadata, false); err != nil {
			return nil, err
		}
		if err := api.ValidateManagedNodeGroup(i, nodes); err != nil {
			return nil, err
		}
		bootstrapper, err := nodebootstrap.NewManagedBootstrapper(config, nodes)
		if err != nil {
			return nil, err
		}
		encoded, err := bootstrapper.UserData()
		if err != nil {
			return nil, err
		}
		userData, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group{
			nodes.Name, nodes.AMIFamily, nodes.InstanceTypeList(), nodes.Labels, nodes.Taints,
			nodes.VolumeSize, nodes.DesiredCapacity, nodes.MaxSize, string(userData),
		})
	}
	return groups, nil
}

func main() {
	if err := api.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := 0
	loaded := map[string][]group{}
	for _, file := range os.Args[1:] {
		groups, err := load(file)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			code = 1
			continue
		}
		loaded[file] = groups
	}
	if err := json.NewEncoder(os.Stdout).Encode(loaded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(code)
}
