// OpenAI's own client for JavaScript.
import OpenAI from "openai";

const { URL: baseURL, KEY: apiKey, MODEL: model } = process.env;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const asked = {
  model,
  messages: [{ role: "user", content: "Tell me a story." }],
  max_tokens: 12,
  temperature: 0,
};

const whole = await client.chat.completions.create(asked);
const stream = await client.chat.completions.create({
  ...asked,
  stream: true,
  stream_options: { include_usage: true },
});
const pieces = [];
let usage;
for await (const chunk of stream) {
  for (const choice of chunk.choices) pieces.push(choice.delta.content ?? "");
  usage = chunk.usage ?? usage;
}
let error = null;
try {
  await client.chat.completions.create({ ...asked, model: "no-such-model" });
} catch (refused) {
  if (!(refused instanceof OpenAI.NotFoundError)) throw refused;
  error = refused.status;
}

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed: pieces.join(""),
    pieces: pieces.filter((piece) => piece).length,
    tokens: whole.usage.completion_tokens,
    streamed_tokens: usage.completion_tokens,
    error,
  }),
);
