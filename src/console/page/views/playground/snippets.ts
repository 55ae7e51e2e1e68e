import { useState } from 'preact/hooks'
import { Code } from '../../components/copy.ts'
import { Section } from '../../components/page-head.ts'
import { Tabs } from '../../components/tabs.ts'
import { h } from '../../h.ts'
import { CHAT_PATH, type ChatOptions, type ChatSide, chatBody } from './chat-stream.ts'
import type { SpeechOptions, TranscriptionOptions } from './options.ts'
import { SPEECH_PATH, speechBody, termsOf, transcriptionFields, transcriptionPath } from './options.ts'

/** The call as code for other programs. A snippet reads the key from the environment and never contains it. */
interface Snippets {
  readonly curl: string
  readonly javascript: string
  readonly python: string
}

type Fields = Readonly<Record<string, Literal>>

/** curl must not save an error as audio: it exits with a code instead. */
const CURL = 'curl -sS --fail-with-body'
const BEARER = '-H "Authorization: Bearer $LARKWAY_API_KEY"'

/** OpenAI's clients want a model. Unless it names a purpose the gateway passes it by: the route of the key chooses. */
const TRANSCRIPTION_MODEL = 'whisper-1'
const SPEECH_MODEL = 'tts-1'
const CHAT_MODEL = 'gpt-4o-mini'

/**
 * A transcription, or its submission as a job.
 *
 * @param origin of the gateway, e.g. `https://gateway.example.com`
 * @param fileName of the audio, as it lies in the folder where the snippet is run
 */
export function transcriptionSnippets(
  origin: string,
  fileName: string,
  options: TranscriptionOptions,
): Snippets {
  const lines = [
    `${CURL} ${shellWord(origin + transcriptionPath(options))}`,
    BEARER,
    curlFile(fileName),
    ...transcriptionFields(options).map(curlField),
  ]
  const curl = lines.join(' \\\n  ')
  if (options.asJob) return { curl, ...jobPrograms(origin, fileName, options) }
  const { known, own } = openaiHearing(options)
  const isText = ['text', 'srt', 'vtt'].includes(options.responseFormat)
  return {
    curl,
    javascript: `import { createReadStream } from 'node:fs'
import OpenAI from 'openai'

${jsClient(origin)}

const transcript = await client.audio.transcriptions.create({
  file: createReadStream(${jsString(fileName)}),
${jsFields({ ...known, ...own })}
})
console.log(transcript${isText ? '' : '.text'})
`,
    python: `import os
from openai import OpenAI

${pythonClient(origin)}

with open(${pythonString(fileName)}, "rb") as file:
    transcript = client.audio.transcriptions.create(
        file=file,
${pythonArguments(known, own, 8)}
    )
print(transcript${isText ? '' : '.text'})
`,
  }
}

/** OpenAI's clients have no jobs: they are followed by hand, until they have ended. */
function jobPrograms(origin: string, fileName: string, options: TranscriptionOptions) {
  const url = origin + transcriptionPath(options)
  const fields = transcriptionFields(options)
  return {
    javascript: `import { openAsBlob } from 'node:fs'

const url = ${jsString(url)}
const headers = { authorization: \`Bearer \${process.env.LARKWAY_API_KEY}\` }
const body = new FormData()
body.append('file', await openAsBlob(${jsString(fileName)}), ${jsString(fileName)})
${fields.map(([name, value]) => `body.append(${jsString(name)}, ${jsString(value)})\n`).join('')}
let job = await (await fetch(url, { method: 'POST', headers, body })).json()
while (job.status === 'queued' || job.status === 'processing')
  job = await (await fetch(\`\${url}/\${job.job_id}?wait=20\`, { headers })).json()
console.log(job.result?.content ?? job.error)
`,
    python: `import os
import requests

url = ${pythonString(url)}
headers = {"Authorization": f"Bearer {os.environ['LARKWAY_API_KEY']}"}
fields = [${fields.map(([name, value]) => `(${pythonString(name)}, ${pythonString(value)})`).join(', ')}]

with open(${pythonString(fileName)}, "rb") as file:
    job = requests.post(url, headers=headers, data=fields, files={"file": file}).json()
while job.get("status") in ("queued", "processing"):
    job = requests.get(f"{url}/{job['job_id']}", headers=headers, params={"wait": 20}).json()
print((job.get("result") or {}).get("content") or job.get("error"))
`,
  }
}

/** Formats that OpenAI's clients have names of, beside their default. */
const CLIENT_FORMATS = new Set(['aac', 'flac', 'opus', 'pcm', 'wav'])

/** @param extension of the file that the audio goes to, e.g. `mp3` */
export function speechSnippets(origin: string, options: SpeechOptions, extension: string): Snippets {
  const { purpose = '', response_profile: profile, input, ...asked } = speechBody(options)
  const output = `speech.${extension}`
  const curl = [
    `${CURL} ${shellWord(origin + SPEECH_PATH)}`,
    BEARER,
    "-H 'Content-Type: application/json'",
    "-H 'Accept: audio/*'",
    `-d ${shellWord(JSON.stringify(speechBody(options)))}`,
    `-o ${shellWord(output)}`,
  ].join(' \\\n  ')
  // Where none is named the clients' format is mp3, that of the request above is the entry's own.
  const format: Fields = CLIENT_FORMATS.has(extension) ? { response_format: extension } : {}
  const known: Fields = { model: String(purpose) || SPEECH_MODEL, input: input ?? '', ...format, ...asked }
  const own: Fields = profile === undefined ? {} : { response_profile: profile }
  return {
    curl,
    javascript: `import { writeFile } from 'node:fs/promises'
import OpenAI from 'openai'

${jsClient(origin)}

const speech = await client.audio.speech.create({
${jsFields({ ...known, ...own })}
})
await writeFile(${jsString(output)}, Buffer.from(await speech.arrayBuffer()))
`,
    // The client insists on a voice; none is the provider's default.
    python: `import os
from openai import OpenAI

${pythonClient(origin)}

with client.audio.speech.with_streaming_response.create(
${pythonArguments({ voice: null, ...known }, own, 4)}
) as speech:
    speech.stream_to_file(${pythonString(output)})
`,
  }
}

/** A streamed chat. */
export function chatSnippets(
  origin: string,
  options: ChatOptions,
  side: Pick<ChatSide, 'purpose' | 'profile'>,
): Snippets {
  const body = chatBody(options, side)
  const { messages, purpose, response_profile: profile, stream: _, ...sampling } = body
  const known: Fields = { model: purpose ?? CHAT_MODEL, ...sampling }
  const own: Fields = profile === undefined ? {} : { response_profile: profile }
  const curl = [
    `${CURL} --no-buffer ${shellWord(origin + CHAT_PATH)}`,
    BEARER,
    "-H 'Content-Type: application/json'",
    `-d ${shellWord(JSON.stringify(body))}`,
  ].join(' \\\n  ')
  const said = messages.map(({ role, content }) => [role, content] as const)
  return {
    curl,
    javascript: `import OpenAI from 'openai'

${jsClient(origin)}

const stream = await client.chat.completions.create({
${jsFields({ ...known, ...own })}
  messages: [
${said.map(([role, content]) => `    { role: '${role}', content: ${jsString(content)} },`).join('\n')}
  ],
  stream: true,
})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '')
process.stdout.write('\\n')
`,
    python: `import os
from openai import OpenAI

${pythonClient(origin)}

stream = client.chat.completions.create(
    messages=[
${said.map(([role, content]) => `        {"role": "${role}", "content": ${pythonString(content)}},`).join('\n')}
    ],
    stream=True,
${pythonArguments(known, own, 4)}
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
`,
  }
}

/** In quotes curl takes a name with `,` or `;` as it is, and only quotes and backslashes are escaped. */
function curlFile(name: string): string {
  if (/^[\w.-]+$/.test(name)) return `-F file=@${name}`
  return `-F ${shellWord(`file=@"${name.replaceAll(/["\\]/g, '\\$&')}"`)}`
}

/** A value that begins with `@` or `<` would name a file, and `;` would end it, were it given by -F. */
function curlField([name, value]: readonly [string, string]): string {
  const plain = /^[\w-][\w .-]*$/.test(value)
  return `${plain ? '-F' : '--form-string'} ${shellWord(`${name}=${value}`)}`
}

/**
 * The options in OpenAI's words, and those that only the gateway has. OpenAI's `json` has no place for times and
 * speakers: the format that shows them is asked for.
 */
function openaiHearing(options: TranscriptionOptions): { readonly known: Fields; readonly own: Fields } {
  const { language, responseFormat, timestamps, diarization, redaction, purpose, profile } = options
  const shown = diarization ? 'diarized_json' : timestamps !== null ? 'verbose_json' : 'json'
  const format = responseFormat === 'json' ? shown : responseFormat
  const keyterms = termsOf(options.keyterms)
  return {
    known: {
      model: purpose === '' ? TRANSCRIPTION_MODEL : purpose,
      ...(language.trim() === '' ? {} : { language: language.trim() }),
      ...(format === 'json' ? {} : { response_format: format }),
      ...(timestamps === null
        ? {}
        : { timestamp_granularities: timestamps === 'both' ? ['word', 'segment'] : [timestamps] }),
    },
    own: {
      ...(diarization ? { diarization } : {}),
      ...(keyterms.length === 0 ? {} : { keyterms }),
      ...(redaction.length === 0 ? {} : { redaction }),
      ...(profile === null ? {} : { response_profile: profile }),
    },
  }
}

function jsClient(origin: string): string {
  return `const client = new OpenAI({
  baseURL: ${jsString(`${origin}/openai/v1`)},
  apiKey: process.env.LARKWAY_API_KEY,
})`
}

function pythonClient(origin: string): string {
  return `client = OpenAI(
    base_url=${pythonString(`${origin}/openai/v1`)},
    api_key=os.environ["LARKWAY_API_KEY"],
)`
}

function jsFields(fields: Fields): string {
  return Object.entries(fields)
    .map(([name, value]) => `  ${name}: ${jsLiteral(value)},`)
    .join('\n')
}

/** Fields that the client's method does not know go into `extra_body`. */
function pythonArguments(known: Fields, own: Fields, indent: number): string {
  const extra = Object.entries(own).map(([name, value]) => `"${name}": ${pythonLiteral(value)}`)
  const lines = [
    ...Object.entries(known).map(([name, value]) => `${name}=${pythonLiteral(value)},`),
    ...(extra.length === 0 ? [] : [`extra_body={${extra.join(', ')}},`]),
  ]
  return lines.map((line) => ' '.repeat(indent) + line).join('\n')
}

// Writes any text as one literal of a language.

/** One word of a POSIX shell; bare where nothing in it means anything to a shell. */
export function shellWord(text: string): string {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A string literal of JavaScript, in single quotes. */
export function jsString(text: string): string {
  const inside = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")
  return `'${inside.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}'`
}

/** A string literal of Python, in double quotes: every escape of JSON means the same there. */
export function pythonString(text: string): string {
  return JSON.stringify(text)
}

/** A value in a snippet. */
type Literal = string | number | boolean | null | readonly string[]

function jsLiteral(value: Literal): string {
  if (typeof value === 'string') return jsString(value)
  if (typeof value === 'object' && value !== null) return `[${value.map(jsString).join(', ')}]`
  return String(value)
}

function pythonLiteral(value: Literal): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'object') return `[${value.map(pythonString).join(', ')}]`
  return typeof value === 'string' ? pythonString(value) : String(value)
}

const LANGUAGES = [
  { id: 'curl', label: 'curl' },
  { id: 'javascript', label: 'JavaScript' },
  { id: 'python', label: 'Python' },
] as const

type Language = (typeof LANGUAGES)[number]['id']

/** The call with the present options, for other programs. */
export function SnippetsView({ snippets }: { readonly snippets: Snippets }) {
  const [language, setLanguage] = useState<Language>('curl')
  const text = snippets[language]
  return h(
    Section,
    { title: 'Code', lead: 'Uses the options above. Set LARKWAY_API_KEY to a key of the app.' },
    h(
      Tabs<Language>,
      { label: 'Language', tabs: LANGUAGES, chosen: language, onChoose: setLanguage },
      h(Code, { title: titleOf(language, text), text }),
    ),
  )
}

function titleOf(language: Language, text: string): string {
  if (language === 'curl') return 'Shell'
  const hasClient = /\bopenai\b/.test(text)
  if (language === 'javascript') return hasClient ? 'Node.js, npm install openai' : 'Node.js'
  return hasClient ? 'Python, pip install openai' : 'Python, pip install requests'
}
