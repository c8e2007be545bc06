"""What a change of a release does to what runs: the one judgement that `raypd up` and
`raypd upgrade-plan` tell, and the plan that the latter makes of it."""
