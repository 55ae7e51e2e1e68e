import { multipart, type Part } from '../support/bodies.ts'
import { CONSOLE_CASES, MANAGEMENT_CASES } from './canary-console.ts'

/** A request as it is sent. */
export interface Ask {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer | string
}

/** What the requests are made of, nearly all of it canaries. */
export interface Songs {
  readonly prompt: string
  readonly filename: string
  /** Of a form's part whose name nobody knows, name and value. */
  readonly field: string
  readonly label: string
  readonly wav: Buffer
  /** With a query that opens something; its host lets audio be fetched. */
  readonly audioUrl: string
  readonly hookUrl: string
  /** What a receiver of callbacks knows its sender by. */
  readonly receiver: string
  /** Of a provider. */
  readonly credential: string
}

/** What has come up by now. */
export interface Found {
  readonly jobId: string
  readonly uploadId: string
  /** Path of a signed result, where the node itself serves them. */
  readonly resultPath: string | null
  /** Of an admin, in the console. */
  readonly session: { readonly cookie: string; readonly csrf: string }
}

type Case = (songs: Songs, found: Found) => readonly Ask[]

const JSON_TYPE = { 'content-type': 'application/json' }

function post(path: string, ...bodies: readonly object[]): Ask[] {
  return bodies.map((body) => ({ method: 'POST', path, headers: JSON_TYPE, body: JSON.stringify(body) }))
}

function get(path: string): Ask {
  return { method: 'GET', path }
}

/** Audio in a form, as JSON in three ways, as the body itself, and by its URL. */
function hearing(path: string, { prompt, filename, field, label, wav, audioUrl }: Songs): Ask[] {
  const base64 = wav.toString('base64')
  return [
    form(path, [
      { name: 'prompt', body: prompt },
      { name: 'purpose', body: label },
      { name: field, body: field },
      { name: 'file', filename, type: 'audio/wav', body: wav },
    ]),
    ...post(
      path,
      { audio: { base64, filename }, prompt, [field]: field },
      { audio: { data: `data:audio/wav;base64,${base64}` }, prompt, purpose: label },
      { audio: base64, keyterms: [prompt] },
      { audio: { url: audioUrl, filename }, prompt },
      { audio: { url: audioUrl.replace('good.example', 'bad.example') } },
      { audio: { url: audioUrl.replace('https://', 'https://user:') } },
    ),
    {
      method: 'POST',
      path: `${path}?prompt=${prompt}&purpose=${label}`,
      headers: { 'content-type': 'audio/wav' },
      body: wav,
    },
  ]
}

/** Audio as the body. */
function bytes(path: string, fields: Readonly<Record<string, string>>, body: Buffer): Ask {
  const headers = { 'content-type': 'audio/wav' }
  return { method: 'POST', path: `${path}?${new URLSearchParams(fields)}`, headers, body }
}

function form(path: string, parts: readonly Part[]): Ask {
  const { contentType, body } = multipart(parts)
  return { method: 'POST', path, headers: { 'content-type': contentType }, body }
}

function chats({ prompt, label, field }: Songs): object[] {
  const messages = [
    { role: 'system', content: prompt },
    { role: 'user', content: [{ type: 'text', text: prompt }] },
  ]
  const tools = [{ type: 'function', function: { name: 'look', description: prompt, parameters: {} } }]
  return [
    { messages, purpose: label },
    { messages, stream: true, [field]: field },
    { messages, tools },
  ]
}

function picture({ prompt, wav }: Songs): object {
  const url = `data:image/png;base64,${wav.toString('base64')}`
  return {
    role: 'user',
    content: [
      { type: 'text', text: prompt },
      { type: 'image_url', image_url: { url } },
    ],
  }
}

const WORKSPACE = '/workspace/acme'

const UPLOADS = '/v1/uploads'
const named = (filename: string) => `filename ${Buffer.from(filename).toString('base64')}`

/** A request of a resumable upload. */
function uploading(method: string, path: string, more: Readonly<Record<string, string>>, body: Buffer): Ask {
  const headers = { 'tus-resumable': '1.0.0', 'content-type': 'application/offset+octet-stream', ...more }
  return { method, path: UPLOADS + path, headers, body }
}

/** What is shown of a transcript at AssemblyAI's door. */
const TRANSCRIPT_PARTS = ['sentences', 'paragraphs', 'srt', 'vtt', 'word-search', 'redacted-audio'].map(
  (part) => `/${part}`,
)

/**
 * Good requests to every path that there is, by method and pattern. What is not in here has no canaries sent through
 * it, so that a path that is new belongs here.
 */
export const CASES: Readonly<Record<string, Case>> = {
  'GET /healthz': () => [get('/healthz')],
  'GET /readyz': () => [get('/readyz')],
  'GET /openapi.json': () => [get('/openapi.json')],
  'GET /docs': () => [get('/docs')],
  'GET /docs/:file': ({ field }) => [get(`/docs/${field}`)],
  'GET /results/:token': ({ field }, { resultPath }) => [
    get(`/results/${field}`),
    ...(resultPath === null ? [] : [get(resultPath), get(`${resultPath}x`)]),
  ],
  'GET /v1/me': () => [get('/v1/me')],
  'GET /v1/usage': ({ field }) => [
    get('/v1/usage?by=app,model'),
    get(`/v1/usage?by=app&app=${field}`),
    get(`/v1/usage?by=${field}`),
  ],
  'POST /v1/chat': (songs) => post('/v1/chat', ...chats(songs)),
  'POST /v1/complete': ({ prompt }) => post('/v1/complete', { prompt }, { prompt, stream: true }),
  'POST /v1/vision': (songs) => post('/v1/vision', { messages: [picture(songs)] }),
  'POST /v1/embeddings': ({ prompt, label }) => post('/v1/embeddings', { input: prompt, purpose: label }),
  'POST /v1/image': ({ prompt }) => post('/v1/image', { prompt }),
  'POST /v1/transcription': (songs) => [
    ...hearing('/v1/transcription', songs),
    form('/v1/transcription', [
      { name: 'stream', body: 'true' },
      { name: 'file', filename: songs.filename, body: songs.wav },
    ]),
    form('/v1/transcription', [
      { name: 'response_format', body: 'text' },
      { name: 'purpose', body: songs.label },
      { name: 'file', body: songs.wav },
    ]),
    form('/v1/transcription', [
      { name: 'mode', body: 'async' },
      { name: 'prompt', body: songs.prompt },
      { name: 'file', body: songs.wav },
    ]),
  ],
  'POST /v1/transcription/references': ({ prompt, label, field }) =>
    post('/v1/transcription/references', { id: label, text: prompt }, { id: prompt, [field]: field }),
  'POST /v1/translation': (songs) => hearing('/v1/translation', songs),
  'POST /v1/transcription/jobs': (songs) => hearing('/v1/transcription/jobs', songs),
  'GET /v1/transcription/jobs/:job_id': ({ field }, { jobId }) => [
    get(`/v1/transcription/jobs/${jobId}`),
    get(`/v1/transcription/jobs/${jobId}?wait=1&${field}=${field}`),
    get(`/v1/transcription/jobs/${field}`),
  ],
  'DELETE /v1/transcription/jobs/:job_id': ({ field }, { jobId }) => [
    { method: 'DELETE', path: `/v1/transcription/jobs/${field}` },
    { method: 'DELETE', path: `/v1/transcription/jobs/${jobId}` },
  ],
  'OPTIONS /v1/uploads': () => [{ method: 'OPTIONS', path: UPLOADS }],
  'OPTIONS /v1/uploads/:upload_id': ({ field }) => [{ method: 'OPTIONS', path: `${UPLOADS}/${field}` }],
  'POST /v1/uploads': ({ filename, prompt, wav }) => [
    uploading(
      'POST',
      '',
      { 'upload-length': String(2 * wav.length), 'upload-metadata': named(filename) },
      wav,
    ),
    uploading('POST', '', { 'upload-length': prompt, 'upload-metadata': prompt }, wav),
    uploading('POST', '', { 'upload-concat': `final;/${prompt}` }, Buffer.alloc(0)),
  ],
  'POST /v1/uploads/tokens': ({ field }) => [
    ...post('/v1/uploads/tokens', {}, { max_bytes: field }, { [field]: field }),
  ],
  'GET /v1/uploads/:upload_id': ({ field }, { uploadId }) => [
    get(`${UPLOADS}/${uploadId}`),
    get(`${UPLOADS}/${field}`),
  ],
  'PATCH /v1/uploads/:upload_id': ({ field, wav }, { uploadId }) => [
    uploading('PATCH', `/${uploadId}`, { 'upload-offset': String(wav.length) }, wav),
    uploading('PATCH', `/${uploadId}`, { 'upload-offset': field }, wav),
    uploading('PATCH', `/${field}`, { 'upload-offset': '0', 'upload-checksum': field }, wav),
  ],
  'POST /v1/uploads/:upload_id': ({ field, wav }, { uploadId }) => [
    uploading('POST', `/${uploadId}`, { 'upload-offset': '0', 'x-http-method-override': 'PATCH' }, wav),
    uploading('POST', `/${field}`, { 'x-http-method-override': field }, wav),
  ],
  'DELETE /v1/uploads/:upload_id': ({ field }, { uploadId }) => [
    uploading('DELETE', `/${field}`, {}, Buffer.alloc(0)),
    uploading('DELETE', `/${uploadId}`, {}, Buffer.alloc(0)),
  ],
  'POST /v1/speech': ({ prompt, field, label }) => [
    ...post('/v1/speech', { input: prompt, voice: 'alloy', purpose: label }, { input: prompt, voice: field }),
    ...post('/v1/speech', { input: prompt, voice: 'alloy' }).map((ask) => ({
      ...ask,
      headers: { ...ask.headers, accept: 'audio/wav' },
    })),
  ],
  'POST /v1/audio': (songs) => [
    ...hearing('/v1/audio', songs),
    ...post('/v1/audio', { task: 'speech', input: songs.prompt, voice: 'alloy' }, { task: songs.field }),
  ],
  'POST /v1/video': ({ prompt }) => post('/v1/video', { prompt }),
  'POST /v1/queue': (songs) =>
    post(
      '/v1/queue',
      { endpoint: 'chat', payload: chats(songs)[0], idempotency_key: songs.field },
      { endpoint: 'speech', payload: { input: songs.prompt, voice: 'alloy' } },
      { endpoint: 'embed', payload: { input: songs.prompt } },
      {
        endpoint: 'transcription',
        payload: { audio: { base64: songs.wav.toString('base64') }, prompt: songs.prompt },
      },
      { endpoint: 'transcription', payload: { audio: { url: songs.audioUrl } } },
      { endpoint: 'chat', payload: { messages: songs.prompt } },
      { endpoint: songs.field, payload: songs.prompt },
    ),
  'GET /workspace/:tenant_id/audio-url-domains': ({ field }) => [
    get(`${WORKSPACE}/audio-url-domains`),
    get(`/workspace/${field}/audio-url-domains`),
  ],
  'PUT /workspace/:tenant_id/audio-url-domains': ({ field }) => [
    put('/audio-url-domains', { domains: [`https://${field}`] }),
    put('/audio-url-domains', { domains: ['good.example'] }),
  ],
  'GET /workspace/:tenant_id/stt-webhook': () => [get(`${WORKSPACE}/stt-webhook`)],
  'PUT /workspace/:tenant_id/stt-webhook': ({ hookUrl, field }) => [
    put('/stt-webhook', { url: `ftp://${field}` }),
    put('/stt-webhook', { url: hookUrl }),
  ],
  // Another workspace's own is not there; that of this one is still needed.
  'DELETE /workspace/:tenant_id/stt-webhook': ({ field }) => [
    { method: 'DELETE', path: `/workspace/${field}/stt-webhook` },
  ],
  'POST /openai/v1/audio/transcriptions': (songs) => openaiHearing('transcriptions', songs),
  'POST /openai/v1/audio/translations': (songs) => openaiHearing('translations', songs),
  'POST /openai/v1/audio/speech': ({ prompt, field }) =>
    post(
      '/openai/v1/audio/speech',
      { model: field, input: prompt, voice: 'alloy' },
      { model: field, input: prompt, voice: 'alloy', stream_format: field },
    ),
  'POST /openai/v1/chat/completions': (songs) =>
    post(
      '/openai/v1/chat/completions',
      ...chats(songs).map((chat) => ({ ...chat, model: songs.label, user: songs.field })),
    ),
  'POST /openai/v1/responses': ({ prompt, label, field }) =>
    post(
      '/openai/v1/responses',
      { model: label, input: prompt, instructions: prompt, metadata: { [field]: prompt }, user: field },
      { input: [{ role: 'user', content: [{ type: 'input_text', text: prompt }] }], stream: true },
      { input: prompt, tools: [{ type: 'function', name: 'look', description: prompt }] },
      { input: [{ type: field, id: prompt }], [field]: prompt },
    ),
  'POST /openai/v1/completions': ({ prompt, field }) =>
    post('/openai/v1/completions', { model: field, prompt }, { model: field, prompt, stream: true }),
  'POST /openai/v1/embeddings': ({ prompt, field }) =>
    post('/openai/v1/embeddings', { model: field, input: prompt }),
  'POST /openai/v1/images/generations': ({ prompt, field }) =>
    post('/openai/v1/images/generations', { model: field, prompt, user: field }),
  'GET /openai/v1/models': () => [get('/openai/v1/models')],
  'GET /openai/v1/models/:model': ({ field }) => [get(`/openai/v1/models/${field}`)],
  'POST /openai/v1/realtime/client_secrets': ({ prompt, field, label }) =>
    post(
      '/openai/v1/realtime/client_secrets',
      { session: { type: 'transcription', audio: { input: { transcription: { model: label, prompt } } } } },
      { session: { type: field }, [field]: prompt },
    ),
  'GET /openai/v1/realtime': ({ prompt }) => live('/openai/v1/realtime', { intent: prompt }),
  'GET /deepgram/v1/listen': ({ prompt, label }) =>
    live('/deepgram/v1/listen', { model: label, keyterm: prompt, encoding: prompt }),
  'GET /deepgram/v2/listen': ({ prompt, label }) =>
    live('/deepgram/v2/listen', { model: label, keyterm: prompt, encoding: prompt }),
  'POST /deepgram/v1/listen': ({ prompt, field, label, wav, audioUrl, receiver }) => [
    bytes('/deepgram/v1/listen', { model: label, tag: prompt, version: prompt }, wav),
    bytes('/deepgram/v1/listen', { [field]: prompt }, wav),
    bytes('/deepgram/v1/listen', { redact: prompt }, wav),
    ...post('/deepgram/v1/listen', { url: audioUrl }, { url: audioUrl, [field]: prompt }),
    ...[`https://lark:${receiver}@hooks.example/hook?${receiver}`, `ftp://${receiver}`].map((callback) =>
      bytes('/deepgram/v1/listen', { callback, extra: `secret:${receiver}` }, wav),
    ),
  ],
  'GET /deepgram/v1/speak': ({ prompt, field, label }) =>
    live('/deepgram/v1/speak', { model: label, tag: field, encoding: prompt }),
  'POST /deepgram/v1/speak': ({ prompt, field, label }) => [
    ...post(`/deepgram/v1/speak?model=${label}&tag=${field}&${field}=1`, { text: prompt, [field]: field }),
    ...post(`/deepgram/v1/speak?encoding=${field}`, { text: prompt }),
  ],
  'GET /deepgram/v1/models': () => [get('/deepgram/v1/models')],
  'GET /deepgram/v1/models/:model': ({ field }) => [get(`/deepgram/v1/models/${field}`)],
  'POST /elevenlabs/v1/speech-to-text': ({ prompt, filename, field, label, wav, audioUrl, receiver }) => {
    const path = '/elevenlabs/v1/speech-to-text'
    const file: Part = { name: 'file', filename, type: 'audio/wav', body: wav }
    const model: Part = { name: 'model_id', body: label }
    return [
      form(path, [model, { name: field, body: prompt }, { name: 'temperature', body: prompt }, file]),
      form(path, [model, { name: 'entity_redaction', body: prompt }, file]),
      form(path, [model, { name: 'transcript_edit', body: prompt }, file]),
      form(path, [model, { name: 'source_url', body: audioUrl }]),
      ...[`{"${receiver}":"${receiver}"}`, receiver].map((metadata) =>
        form(path, [
          model,
          { name: 'webhook', body: 'true' },
          { name: 'webhook_metadata', body: metadata },
          file,
        ]),
      ),
    ]
  },
  ...Object.fromEntries(
    ['', '/stream', '/with-timestamps', '/stream/with-timestamps'].map((suffix) => [
      `POST /elevenlabs/v1/text-to-speech/:voice_id${suffix}`,
      ({ prompt, field, label }: Songs) => [
        ...post(`/elevenlabs/v1/text-to-speech/alloy${suffix}`, {
          text: prompt,
          model_id: label,
          previous_text: prompt,
          [field]: field,
        }),
        ...post(`/elevenlabs/v1/text-to-speech/${field}${suffix}?output_format=${field}`, { text: prompt }),
      ],
    ]),
  ),
  'GET /elevenlabs/v1/voices': () => [get('/elevenlabs/v1/voices')],
  'GET /elevenlabs/v1/voices/:voice_id': ({ field }) => [get(`/elevenlabs/v1/voices/${field}`)],
  'GET /elevenlabs/v2/voices': () => [get('/elevenlabs/v2/voices')],
  'GET /elevenlabs/v1/models': () => [get('/elevenlabs/v1/models')],
  'POST /assemblyai/v2/upload': ({ field, wav }) => [
    bytes('/assemblyai/v2/upload', { [field]: field }, wav),
    bytes('/assemblyai/v2/upload', {}, Buffer.from(field)),
  ],
  'POST /assemblyai/v2/transcript': ({ prompt, field, label, audioUrl, receiver }) =>
    post(
      '/assemblyai/v2/transcript',
      { audio_url: audioUrl, prompt, speech_model: label, [field]: field },
      { audio_url: `https://larkway.invalid/upload/${field}` },
      { audio_url: audioUrl, redact_pii: true, redact_pii_policies: [field] },
      ...['hooks.example/hook', 'hooks.example/failed', 'localhost'].map((place) => ({
        audio_url: audioUrl,
        webhook_url: `https://${receiver}:${receiver}@${place}`,
        webhook_auth_header_name: 'X-Receiver',
        webhook_auth_header_value: receiver,
      })),
    ),
  ...Object.fromEntries(
    ['', ...TRANSCRIPT_PARTS].map((part): [string, Case] => [
      `GET /assemblyai/v2/transcript/:job_id${part}`,
      ({ field }, { jobId }) => [
        get(`/assemblyai/v2/transcript/${jobId}${part}`),
        get(`/assemblyai/v2/transcript/${field}${part}?chars_per_caption=${field}&words=${field}`),
      ],
    ]),
  ),
  'GET /assemblyai/v2/transcript': ({ field }) => [
    get('/assemblyai/v2/transcript'),
    get(`/assemblyai/v2/transcript?status=${field}&after_id=${field}`),
  ],
  'DELETE /assemblyai/v2/transcript/:job_id': ({ field }, { jobId }) => [
    { method: 'DELETE', path: `/assemblyai/v2/transcript/${jobId}` },
    { method: 'DELETE', path: `/assemblyai/v2/transcript/${field}` },
  ],
  'GET /v1/transcription/stream': ({ prompt, label }) =>
    live('/v1/transcription/stream', { prompt, purpose: label, timestamps: prompt }),
  'GET /v1/speech/stream': ({ field, label }) =>
    live('/v1/speech/stream', { voice: field, purpose: label, response_format: field }),
  ...CONSOLE_CASES,
  ...MANAGEMENT_CASES,
}

/** A handshake whose fields are refused, and a request that is none. */
function live(path: string, fields: Readonly<Record<string, string>>): Ask[] {
  const query = `${path}?${new URLSearchParams(fields)}`
  const headers = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAECAwQFBgcICQoLDA0ODw==',
  }
  return [get(query), { ...get(query), headers }]
}

function put(path: string, body: object): Ask {
  return { method: 'PUT', path: `${WORKSPACE}${path}`, headers: JSON_TYPE, body: JSON.stringify(body) }
}

function openaiHearing(what: string, { prompt, filename, field, label, wav }: Songs): Ask[] {
  const file: Part = { name: 'file', filename, type: 'audio/wav', body: wav }
  const path = `/openai/v1/audio/${what}`
  return [
    form(path, [{ name: 'model', body: label }, { name: 'prompt', body: prompt }, file]),
    form(path, [{ name: 'model', body: field }, { name: field, body: field }, file]),
    form(path, [{ name: 'model', body: field }, { name: 'response_format', body: 'text' }, file]),
  ]
}
