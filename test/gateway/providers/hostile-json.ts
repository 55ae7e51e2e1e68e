import { readdir } from 'node:fs/promises'
import fc from 'fast-check'
import { fixture } from '../../support/replies.ts'

/** Names that the readers look at, with anything in them. */
const KNOWN = [
  ...['choices', 'message', 'delta', 'content', 'refusal', 'audio', 'data', 'transcript', 'tool_calls'],
  ...['function', 'name', 'arguments', 'index', 'id', 'finish_reason', 'usage', 'x_groq', 'prompt_tokens'],
  ...['error', 'code', 'type', 'text', 'segments', 'start', 'end', 'speaker', 'languages', 'words', 'word'],
  ...['embedding', 'b64_json', 'url', 'output_format', 'status', 'seconds', 'output', 'cost', 'credits'],
  ...['results', 'channels', 'alternatives', 'utterances', 'channel', 'confidence', 'detected_language'],
  ...['metadata', 'duration', 'transcripts', 'speaker_id', 'logprob', 'language_code', 'upload_url'],
  ...['candidates', 'parts', 'inlineData', 'mimeType', 'functionCall', 'args', 'audioTranscription'],
  ...['startOffset', 'endOffset', 'speakerLabel', 'promptFeedback', 'blockReason', 'usageMetadata'],
  ...['steps', 'uri', 'mime_type', 'models', 'nextPageToken', 'embeddings', 'values', 'detail', 'details'],
  ...['audio_data', 'audio_language', 'prompt_audio_seconds', 'object', 'loc', 'msg'],
  ...['content_block', 'stop_reason', 'input', 'partial_json', 'input_tokens', 'failureCode', 'failure'],
]

const WORDS = [
  ...[
    ...['', 'stop', 'STOP', 'A', 'word', 'eng', '1', '1.5s', 'SAFETY', 'en-', 'audio/L16;rate=24000'],
    'audio/wav',
  ],
  ...['queued', 'completed', 'COMPLETED', 'SUCCEEDED', 'FAILED', 'RUNNING', 'failed', 'in_progress', 'error'],
  ...['text', 'tool_use', 'message', 'message_stop', 'message_start', 'message_delta', 'content_block_start'],
  ...[
    ...['content_block_delta', 'text_delta', 'input_json_delta', 'model_output', 'video', 'audio'],
    'insufficient_quota',
  ],
  ...['transcript.text.delta', 'transcript.text.segment', 'transcript.text.done'],
  ...['transcription.language', 'transcription.text.delta', 'transcription.done'],
  ...['speech.audio.delta', 'speech.audio.done'],
  ...['AAA=', 'AAAAAAAA', Buffer.from('RIFF\0\0\0\0WAVEfmt ').toString('base64')],
  ...['.', '..', '../../x', 'a/../../../b', 'a?b#c', 'https://evil.example/x', 'https://u:p@p.example/v1/x'],
  ...[
    ...['https://p.example/v1/x', 'https://p.example.evil.example/x', '//evil.example', '\\\\evil.example'],
    '%2e%2e',
  ],
  ...['\ud800', 'a\udfffb', '\u0000', 'p0ison '.repeat(1_000)],
]

/** What JSON can say and JavaScript cannot write; a string stands for it until `hostileJson` puts it in. */
export const RAW_JSON = {
  '@huge': '1e999',
  '@small': '-1e-999',
  '@deep': `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
  '@deep object': `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
}

/** As JSON text, with the raw parts put in. */
export function hostileJson(value: unknown): string {
  let text = JSON.stringify(value)
  for (const [name, raw] of Object.entries(RAW_JSON)) text = text.replaceAll(`"${name}"`, raw)
  return text.replaceAll('"@proto":', '"__proto__":')
}

const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, 1, -1, 0.5, 429, 1e308, ...Object.keys(RAW_JSON)),
    fc.constantFrom(...WORDS),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...KNOWN), tie('value'), { maxKeys: 6 }),
    fc.dictionary(fc.constantFrom('@proto', 'constructor', 'length', 'toString'), tie('value')),
  ),
}))

/** JSON of any shape, in words that providers use, with all in it that is hard to read. For `hostileJson`. */
export const hostileValue = value

/** Of whose answers there are fixtures; the others speak OpenAI's language. */
const FIXTURES = [
  ...['anthropic', 'assemblyai', 'deepgram', 'elevenlabs', 'gemini', 'mistral', 'openai', 'runway'],
]
/** Files that hold several answers by name. */
const COLLECTIONS = /(?:tasks|videos|errors|channels|stream)\.json$/

/** What a provider truly answers, as JSON values. */
export async function trueAnswers(kind: string): Promise<unknown[]> {
  const folder = FIXTURES.includes(kind) ? kind : 'openai'
  const files = await readdir(new URL(`../../fixtures/${folder}`, import.meta.url))
  const answers: unknown[] = []
  for (const file of files.filter((name) => name.endsWith('.json'))) {
    const read = await fixture(`${folder}/${file}`)
    answers.push(...(COLLECTIONS.test(file) ? [read, ...Object.values(read as object)] : [read]))
  }
  return answers
}

/** The value with one thing in it, at whatever depth, put in the place of another. */
export function changed(answer: unknown, place: number, by: unknown): unknown {
  let left = place % countOf(answer)
  const walk = (at: unknown): unknown => {
    if (left === 0) {
      left = -1
      return by
    }
    left -= 1
    if (Array.isArray(at)) return at.map(walk)
    if (typeof at !== 'object' || at === null) return at
    return Object.fromEntries(Object.entries(at).map(([name, inner]) => [name, walk(inner)]))
  }
  return walk(answer)
}

function countOf(answer: unknown): number {
  if (typeof answer !== 'object' || answer === null) return 1
  return Object.values(answer).reduce((sum: number, inner) => sum + countOf(inner), 1)
}
