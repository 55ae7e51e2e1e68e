import type { Answered } from '../support/openapi-document.ts'

/** A call of a documented operation, as it goes over the wire. */
export interface DocumentedCall {
  /** Id of the operation. */
  readonly id: string
  readonly summary: string
  readonly status: number
  /** Stands in the document as an example. */
  readonly shown?: boolean
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: Readonly<Record<string, unknown>>
  /** Sent as it is. */
  readonly body?: FormData | Buffer
}

export interface Node {
  readonly url: string
  readonly key: string
}

export async function send({ url, key }: Node, call: DocumentedCall): Promise<Answered> {
  const { path, json, body, headers = {} } = call
  const type: Readonly<Record<string, string>> =
    json === undefined ? {} : { 'content-type': 'application/json' }
  const content = json === undefined ? body : JSON.stringify(json)
  const response = await fetch(url + path, {
    method: call.method ?? (content === undefined ? 'GET' : 'POST'),
    headers: { ...(key === '' ? {} : { authorization: `Bearer ${key}` }), ...type, ...headers },
    redirect: 'manual',
    ...(content === undefined ? {} : { body: content as NonNullable<RequestInit['body']> }),
  })
  return {
    status: response.status,
    headers: response.headers,
    body: Buffer.from(await response.arrayBuffer()),
  }
}

export interface Recordings {
  /** "hello world" in Morse code, wav. */
  readonly audio: Buffer
  /** A picture that says "sos". */
  readonly picture: string
}

function formOf(audio: Buffer, fields: Readonly<Record<string, string>>): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', new Blob([new Uint8Array(audio)], { type: 'audio/wav' }), 'hello.wav')
  return form
}

const MESSAGES = [{ role: 'user', content: 'sos' }]

/** Calls that the demo answers, of every operation and in every content type. */
export function demoCalls({ audio, picture }: Recordings): readonly DocumentedCall[] {
  const base64 = audio.toString('base64')
  const wav = { 'content-type': 'audio/wav' }
  const image = `data:image/png;base64,${picture}`
  const heard = { path: '/v1/transcription', id: 'transcription', status: 200 }
  const chat = { path: '/v1/chat', id: 'chat', status: 200 }
  const any = { path: '/v1/audio', id: 'audio', status: 200 }
  return [
    { ...heard, summary: 'Audio in JSON', shown: true, json: { audio: { base64, media_type: 'audio/wav' } } },
    { ...heard, summary: 'All fields', body: formOf(audio, ALL_FIELDS) },
    {
      ...heard,
      summary: 'Times of words',
      json: { audio: base64, timestamps: 'both', response_format: 'verbose_json' },
    },
    {
      ...heard,
      summary: 'The audio alone',
      path: '/v1/transcription?timestamps=word&seed=7',
      headers: wav,
      body: audio,
    },
    { ...heard, summary: 'Text', shown: true, body: formOf(audio, { response_format: 'text' }) },
    { ...heard, summary: 'Subtitles', shown: true, body: formOf(audio, { response_format: 'srt' }) },
    {
      ...heard,
      summary: 'Web subtitles',
      shown: true,
      body: formOf(audio, { response_format: 'vtt', modle: 'x' }),
    },
    { ...heard, summary: 'Events', shown: true, body: formOf(audio, { stream: 'true' }) },
    { ...heard, summary: 'A job', status: 202, shown: true, body: formOf(audio, { mode: 'async' }) },
    { ...heard, summary: 'With a key', headers: { 'idempotency-key': 'k1' }, json: { audio: base64 } },
    {
      ...heard,
      summary: 'With that key again',
      headers: { 'idempotency-key': 'k1' },
      json: { audio: base64 },
    },
    {
      ...heard,
      summary: 'With a key that a stream passes by',
      headers: { 'idempotency-key': 'k2' },
      json: { audio: base64, stream: true },
    },
    {
      path: '/v1/transcription/references',
      id: 'transcriptionReferences',
      status: 404,
      summary: 'Of a call that was not compared',
      json: { id: 'none', text: 'hello world' },
    },
    {
      path: '/v1/translation',
      id: 'translation',
      status: 200,
      summary: 'Audio in JSON',
      shown: true,
      json: { audio: { base64 } },
    },
    {
      path: '/v1/translation',
      id: 'translation',
      status: 200,
      summary: 'Text',
      body: formOf(audio, { response_format: 'text' }),
    },
    {
      path: '/v1/speech',
      id: 'speech',
      status: 200,
      summary: 'A text',
      shown: true,
      json: { input: 'hello world' },
    },
    {
      path: '/v1/speech',
      id: 'speech',
      status: 200,
      summary: 'Spoken as the body',
      headers: { accept: 'audio/wav', 'x-lk-purpose': 'office' },
      json: {
        input: 'e',
        voice: 'alloy',
        speed: 1,
        response_format: 'wav',
        seed: 1,
        response_profile: 'fast',
      },
    },
    { ...any, summary: 'Speech', shown: true, json: { task: 'speech', input: 'e' } },
    {
      ...any,
      summary: 'Speech as the body',
      headers: { accept: 'audio/*' },
      json: { task: 'speech', input: 'e' },
    },
    { ...any, summary: 'Transcription', json: { audio: { base64 } } },
    { ...any, summary: 'Translation', body: formOf(audio, { task: 'translation', response_format: 'srt' }) },
    { ...any, summary: 'Events', body: formOf(audio, { stream: '1' }) },
    { ...chat, summary: 'A question', shown: true, json: { messages: MESSAGES } },
    { ...chat, summary: 'Events', shown: true, json: { messages: MESSAGES, stream: true } },
    {
      ...chat,
      summary: 'All fields',
      headers: { 'idempotency-key': 'k' },
      json: { messages: MESSAGES, ...CHAT_FIELDS },
    },
    {
      ...chat,
      summary: 'Spoken',
      json: { messages: MESSAGES, modalities: ['text', 'audio'], audio: { format: 'wav' } },
    },
    {
      ...chat,
      summary: 'In JSON',
      json: { messages: MESSAGES, response_schema: { type: 'array', items: { type: 'string' } } },
    },
    ...CALLED.map((call) => ({ ...chat, ...call })),
    {
      path: '/v1/complete',
      id: 'complete',
      status: 200,
      summary: 'A text',
      shown: true,
      json: { prompt: 'sos', max_tokens: 50 },
    },
    {
      path: '/v1/complete',
      id: 'complete',
      status: 200,
      summary: 'Events',
      json: { prompt: 'sos', stream: true },
    },
    {
      path: '/v1/vision',
      id: 'vision',
      status: 200,
      summary: 'A prompt and its pictures',
      shown: true,
      json: { prompt: 'what does it say?', images: [image] },
    },
    {
      path: '/v1/vision',
      id: 'vision',
      status: 200,
      summary: 'Messages',
      json: {
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image } }] }],
        stream: true,
      },
    },
    {
      path: '/v1/embeddings',
      id: 'embeddings',
      status: 200,
      summary: 'Two texts',
      shown: true,
      json: { input: ['a lark', 'a way'], dimensions: 8 },
    },
    {
      path: '/v1/image',
      id: 'image',
      status: 200,
      summary: 'A picture',
      shown: true,
      json: { prompt: 'sos', size: '256x256' },
    },
    {
      path: '/v1/queue',
      id: 'queue',
      status: 202,
      summary: 'A chat',
      shown: true,
      json: { endpoint: 'chat', mode: 'bulk', payload: { messages: MESSAGES } },
    },
    {
      path: '/v1/queue',
      id: 'queue',
      status: 202,
      summary: 'With a key',
      json: { endpoint: 'embed', payload: { input: 'a' }, idempotency_key: 'q' },
    },
    {
      path: '/v1/queue',
      id: 'queue',
      status: 200,
      summary: 'With that key again',
      json: { endpoint: 'embed', payload: { input: 'a' }, idempotency_key: 'q' },
    },
    ...openaiCalls(audio, image),
    ...deepgramCalls(audio),
    ...elevenlabsCalls(audio),
    { path: '/v1/me', id: 'me', status: 200, summary: 'The key of the demo', shown: true },
    {
      path: DOMAINS,
      method: 'PUT',
      id: 'replaceAudioUrlDomains',
      status: 200,
      summary: 'Two hosts',
      shown: true,
      json: { domains: ['CDN.example.com', '*.bücher.example'] },
    },
    { path: DOMAINS, id: 'showAudioUrlDomains', status: 200, summary: 'The list', shown: true },
    {
      path: WEBHOOK,
      method: 'PUT',
      id: 'setWebhook',
      status: 200,
      summary: 'A webhook',
      shown: true,
      json: { url: 'https://hooks.example.com/stt' },
    },
    { path: WEBHOOK, id: 'showWebhook', status: 200, summary: 'The webhook', shown: true },
    {
      path: '/v1/usage?by=app,model&from=2026-11-01&to=2026-11-20',
      id: 'usage',
      status: 200,
      summary: 'By app and model',
      shown: true,
    },
    {
      path: '/v1/usage?by=key_id&step=day&format=csv',
      id: 'usage',
      status: 200,
      summary: 'By key and day, as CSV',
    },
    {
      path: '/elevenlabs/v1/speech-to-text',
      id: 'elevenlabsSpeechToText',
      status: 202,
      summary: 'For the webhook',
      body: formOf(audio, { model_id: 'scribe_v2', webhook: 'true' }),
    },
    {
      path: WEBHOOK,
      method: 'DELETE',
      id: 'removeWebhook',
      status: 200,
      summary: 'It is gone',
      shown: true,
      headers: { 'idempotency-key': 'k' },
    },
    { path: '/healthz', id: 'healthz', status: 200, summary: 'Alive', shown: true },
    { path: '/readyz', id: 'readyz', status: 200, summary: 'Ready', shown: true },
    { path: '/openapi.json', id: 'openapi', status: 200, summary: 'The document' },
    { path: '/docs', id: 'docs', status: 200, summary: 'The page' },
    { path: '/docs/page.css', id: 'docsFile', status: 200, summary: 'Its style sheet' },
  ]
}

function deepgramCalls(audio: Buffer): readonly DocumentedCall[] {
  const at = (path: string) => ({ path: `/deepgram/v1${path}`, status: 200 })
  const heard = { ...at('/listen'), id: 'deepgramListenFile', headers: { 'content-type': 'audio/wav' } }
  const all = 'utterances=true&paragraphs=true&detect_language=true&tag=a&extra=k:v&version=x'
  const spoken = { ...at('/speak'), id: 'deepgramSpeak' }
  return [
    { ...spoken, summary: 'A text', shown: false, json: { text: 'e' } },
    {
      ...spoken,
      ...at('/speak?model=alloy&encoding=linear16&tag=a'),
      summary: 'Options',
      json: { text: 'e' },
    },
    { ...at('/models'), id: 'deepgramModels', summary: 'The list', shown: true },
    { ...at('/models/morse-1'), id: 'deepgramModel', summary: 'One of them', shown: true },
    { ...heard, summary: 'A file', shown: true, body: audio },
    { ...heard, ...at(`/listen?${all}`), summary: 'Options', body: audio },
    { ...heard, ...at('/listen?callback=https://hooks.invalid/dg'), summary: 'A callback', body: audio },
    { ...heard, headers: { ...heard.headers, 'idempotency-key': 'd' }, summary: 'With a key', body: audio },
    {
      ...heard,
      headers: { ...heard.headers, 'idempotency-key': 'd' },
      summary: 'With that key again',
      body: audio,
    },
  ]
}

function elevenlabsCalls(audio: Buffer): readonly DocumentedCall[] {
  const at = (id: string, path: string) => ({ id, path: `/elevenlabs${path}`, status: 200 })
  const heard = at('elevenlabsSpeechToText', '/v1/speech-to-text')
  const scribe = { model_id: 'scribe_v2' }
  const spoken = '/v1/text-to-speech/alloy'
  return [
    { ...heard, summary: 'A file', shown: true, body: formOf(audio, scribe) },
    {
      ...heard,
      summary: 'Without times',
      body: formOf(audio, { ...scribe, timestamps_granularity: 'none', temperature: '0' }),
    },
    ...['With a key', 'With that key again'].map((summary) => ({
      ...heard,
      summary,
      headers: { 'idempotency-key': 'x' },
      body: formOf(audio, scribe),
    })),
    {
      ...at('elevenlabsTextToSpeech', spoken),
      summary: 'A text',
      json: { text: 'e', model_id: 'eleven_v3' },
    },
    {
      ...at('elevenlabsTextToSpeechStream', `${spoken}/stream?output_format=wav_24000`),
      summary: 'A format',
      json: { text: 'e', voice_settings: { speed: 1 } },
    },
    {
      ...at('elevenlabsTimedSpeech', `${spoken}/with-timestamps`),
      summary: 'Times',
      shown: true,
      json: { text: 'so e' },
    },
    {
      ...at('elevenlabsTimedSpeechStream', `${spoken}/stream/with-timestamps`),
      summary: 'Times',
      json: { text: 'e' },
    },
    { ...at('elevenlabsVoices', '/v1/voices'), summary: 'The list' },
    { ...at('elevenlabsVoice', '/v1/voices/alloy'), summary: 'One of them', shown: true },
    { ...at('elevenlabsVoicesPage', '/v2/voices'), summary: 'The list' },
    { ...at('elevenlabsModels', '/v1/models'), summary: 'The list', shown: true },
  ]
}

function openaiCalls(audio: Buffer, image: string): readonly DocumentedCall[] {
  const at = (id: string, path: string) => ({ id, path: `/openai/v1${path}`, status: 200 })
  const heard = at('openaiTranscription', '/audio/transcriptions')
  const chat = at('openaiChat', '/chat/completions')
  const response = at('openaiResponse', '/responses')
  const completion = at('openaiCompletion', '/completions')
  const embeddings = at('openaiEmbeddings', '/embeddings')
  const model = 'gpt-4o'
  const usage = { stream: true, stream_options: { include_usage: true } }
  const seen = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image } }] }]
  return [
    { ...heard, summary: 'A file', shown: true, body: formOf(audio, { model: 'whisper-1', language: 'en' }) },
    {
      ...heard,
      summary: 'Verbose',
      body: formOf(audio, { response_format: 'verbose_json', timestamps: 'both' }),
    },
    {
      ...heard,
      summary: 'Words',
      body: formOf(audio, { response_format: 'verbose_json', timestamps: 'word' }),
    },
    { ...heard, summary: 'Text', body: formOf(audio, { response_format: 'text' }) },
    { ...heard, summary: 'Subtitles', body: formOf(audio, { response_format: 'srt' }) },
    { ...heard, summary: 'Web subtitles', body: formOf(audio, { response_format: 'vtt' }) },
    { ...heard, summary: 'Events', shown: true, body: formOf(audio, { stream: 'true' }) },
    {
      ...heard,
      summary: 'JSON',
      headers: { 'idempotency-key': 'o' },
      json: { audio: { base64: audio.toString('base64') }, model },
    },
    {
      ...heard,
      summary: 'JSON again',
      headers: { 'idempotency-key': 'o' },
      json: { audio: { base64: audio.toString('base64') }, model },
    },
    {
      ...at('openaiTranslation', '/audio/translations'),
      summary: 'A file',
      shown: true,
      body: formOf(audio, {}),
    },
    {
      ...at('openaiTranslation', '/audio/translations'),
      summary: 'Verbose',
      body: formOf(audio, { response_format: 'verbose_json' }),
    },
    {
      ...at('openaiSpeech', '/audio/speech'),
      summary: 'A text',
      json: { model: 'tts-1', input: 'e', voice: 'alloy' },
    },
    { ...chat, summary: 'A question', shown: true, json: { model, messages: MESSAGES } },
    { ...chat, summary: 'Events', shown: true, json: { model, messages: MESSAGES, ...usage } },
    ...CALLED.map((call) => ({ ...chat, ...call })),
    { ...chat, summary: 'A picture', json: { messages: seen } },
    { ...response, summary: 'A question', shown: true, json: { model, input: 'sos' } },
    { ...response, summary: 'Events', shown: true, json: { model, input: 'sos', stream: true } },
    ...[false, true].map((stream) => ({
      ...response,
      summary: `A called function${stream ? ' in events' : ''}`,
      json: {
        ...{ model, input: 'sos', tools: [{ type: 'function', ...TOOL.function }] },
        ...{ tool_choice: 'required', metadata: { a: 'b' }, stream },
      },
    })),
    { ...completion, summary: 'A text', shown: true, json: { model, prompt: 'sos' } },
    { ...completion, summary: 'Events', json: { model, prompt: 'sos', ...usage } },
    { ...embeddings, summary: 'A text', shown: true, json: { model, input: 'a lark', dimensions: 8 } },
    { ...embeddings, summary: 'In base64', json: { model, input: 'a lark', encoding_format: 'base64' } },
    {
      ...at('openaiImages', '/images/generations'),
      summary: 'A picture',
      shown: true,
      json: { prompt: 'sos', size: '256x256' },
    },
    {
      ...at('openaiClientSecrets', '/realtime/client_secrets'),
      summary: 'Ten minutes of live transcription in a browser',
      shown: true,
      json: {
        expires_after: { anchor: 'created_at', seconds: 600 },
        session: { type: 'transcription', audio: { input: { transcription: { language: 'en' } } } },
      },
    },
    { ...at('openaiModels', '/models'), summary: 'The models of the demo', shown: true },
    { ...at('openaiModel', '/models/morse-1'), summary: 'A model', shown: true },
  ]
}

const DOMAINS = '/workspace/demo/audio-url-domains'
const WEBHOOK = '/workspace/demo/stt-webhook'

/** Every field of a transcription that its one model takes, as a form has them. */
const ALL_FIELDS = {
  language: 'en',
  prompt: 'a greeting',
  response_format: 'json',
  mode: 'batch',
  speaker_count_hint: '2',
  timestamps: 'both',
  smart_formatting: 'true',
  detect_language: '0',
  profanity_filter: 'false',
  seed: '-1',
  stream: 'false',
  purpose: 'unheard-of',
  response_profile: 'fast',
}

const TOOL = {
  type: 'function',
  function: { name: 'tap', description: 'taps a word', parameters: { type: 'object', properties: {} } },
}
/** Calls of a function, of whichever door. */
const CALLED = [
  { summary: 'A called function', json: { messages: MESSAGES, tools: [TOOL], tool_choice: 'required' } },
  {
    summary: 'A called function in events',
    json: { messages: MESSAGES, tools: [TOOL], tool_choice: 'required', stream: true },
  },
]

const CHAT_FIELDS = {
  max_tokens: 10,
  temperature: 0,
  top_p: 1,
  stop: ['stop'],
  seed: 1,
  tools: [TOOL],
  tool_choice: 'auto',
  modalities: ['text'],
  purpose: null,
}
