import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type {
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../src/contracts/calls.ts'
import type { JsonObject } from '../../../src/contracts/json.ts'
import type { Step, Target } from '../../../src/contracts/provider.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { assemblyai } from '../../../src/gateway/providers/assemblyai/provider.ts'
import { policiesOf } from '../../../src/gateway/providers/assemblyai/redaction.ts'
import { options } from '../../support/call.ts'
import { serveHttp } from '../../support/http-server.ts'
import { memoryAudio, STANDINGS, type Standing } from '../../support/memory-audio.ts'
import { fixture } from '../../support/replies.ts'
import { filledWav } from '../../support/wav.ts'

const KEY = 'aai-secret'
const once = { deadlineMs: 10_000, signal: new AbortController().signal, onHeld: () => {} }

/** `POST /v2/transcript`, as far as it is used; the vendor's library (assemblyai 4.41.5) types it. */
const TranscriptParams = Type.Object(
  {
    audio_url: Type.String(),
    speech_models: Type.Array(Type.Enum(['universal-3-5-pro', 'universal-3-pro', 'universal-2']), {
      minItems: 1,
    }),
    language_code: Type.Optional(Type.String({ pattern: '^[a-z]{2,3}(_[a-z]{2})?$' })),
    language_detection: Type.Optional(Type.Boolean()),
    language_detection_options: Type.Optional(
      Type.Object(
        { fallback_language: Type.String(), on_no_speech_detected: Type.Enum(['error', 'fallback']) },
        { additionalProperties: false },
      ),
    ),
    speaker_labels: Type.Optional(Type.Boolean()),
    speakers_expected: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
    speaker_options: Type.Optional(Type.Object({ max_speakers_expected: Type.Integer() })),
    multichannel: Type.Optional(Type.Boolean()),
    keyterms_prompt: Type.Optional(Type.Array(Type.String(), { maxItems: 1000 })),
    prompt: Type.Optional(Type.String()),
    format_text: Type.Optional(Type.Boolean()),
    punctuate: Type.Optional(Type.Boolean()),
    filter_profanity: Type.Optional(Type.Boolean()),
    redact_pii: Type.Optional(Type.Boolean()),
    redact_pii_policies: Type.Optional(Type.Array(Type.String(), { minItems: 1 })),
    redact_pii_sub: Type.Optional(Type.Enum(['entity_name', 'hash'])),
  },
  { additionalProperties: false },
)

/** The provider, with what it keeps: uploads by their address, transcripts by their number. */
class Provider {
  readonly uploads = new Map<string, string>()
  readonly transcripts = new Map<string, { looks: number; readonly params: JsonObject; deleted: boolean }>()
  readonly log: string[] = []

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    this.log.push(`${request.method} ${request.url}`)
    const [status, body] = await this.#answer(request, Buffer.concat(chunks))
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  async #answer({ method, url = '', headers }: IncomingMessage, body: Buffer): Promise<[number, unknown]> {
    if (headers.authorization !== KEY)
      return [401, { error: 'Authentication error, API token missing/invalid' }]
    if (headers['transfer-encoding'] !== undefined) return [411, { error: 'length' }]
    if (method === 'POST' && url === '/v2/upload') {
      if (headers['content-type'] !== 'application/octet-stream') return [415, { error: 'type' }]
      const address = `https://cdn.assemblyai.com/upload/${this.uploads.size}`
      this.uploads.set(address, createHash('sha256').update(body).digest('hex'))
      return [200, { upload_url: address }]
    }
    if (method === 'POST' && url === '/v2/transcript') return this.#create(headers['content-type'], body)
    if (method === 'GET' && url === '/v2/transcript?limit=1')
      return [200, { page_details: {}, transcripts: [] }]
    const id = /^\/v2\/transcript\/([a-z0-9-]+)$/.exec(url)?.[1] ?? ''
    const transcript = this.transcripts.get(id)
    if (transcript === undefined) return [404, { error: 'Not found' }]
    if (method === 'DELETE') {
      transcript.deleted = true
      return [200, { id, status: 'completed', text: 'Deleted by user.' }]
    }
    transcript.looks += 1
    if (transcript.looks === 2) return [503, { error: 'Service unavailable' }]
    return [200, transcript.looks < 4 ? { id, status: 'processing' } : await complete(id, transcript.params)]
  }

  #create(type: string | undefined, body: Buffer): [number, unknown] {
    const params: unknown = JSON.parse(body.toString())
    if (type !== 'application/json' || !Value.Check(TranscriptParams, params)) {
      return [400, { error: 'Invalid endpoint schema' }]
    }
    if (!this.uploads.has(params.audio_url)) return [400, { error: 'Cannot access uploaded file' }]
    if (params.prompt !== undefined && params.keyterms_prompt !== undefined) {
      return [400, { error: 'prompt and keyterms_prompt cannot be used together' }]
    }
    if (params.language_code !== undefined && params.language_detection === true) {
      return [400, { error: 'language_code cannot be used with language_detection' }]
    }
    const id = `5551722-f677-48a6-9287-${this.transcripts.size}`
    this.transcripts.set(id, { looks: 0, params, deleted: false })
    return [200, { id, status: 'queued', ...params }]
  }
}

/** The transcript as the parameters shape it. */
async function complete(id: string, params: JsonObject): Promise<unknown> {
  const name =
    params.multichannel === true ? 'channels' : params.speaker_labels === true ? 'speakers' : 'plain'
  const body = (await fixture(`assemblyai/${name}.json`)) as JsonObject
  const { redact_pii = false, redact_pii_policies = null } = params
  return { ...body, id, redact_pii, redact_pii_policies }
}

async function connect(t: Test, standing: Standing) {
  const provider = new Provider()
  const baseUrl = await serveHttp(t, (request, response) => void provider.serve(request, response))
  const wav = filledWav(200_001, 7)
  const { audio, reader } = memoryAudio(wav, standing)
  const sender = createSender({ reader })
  t.teardown(() => sender.close())
  const target: Target = { model: 'universal-3-5-pro', baseUrl, credential: KEY, options: {} }
  const call = (given: Partial<TranscriptionOptions> = {}): TranscriptionCall => ({
    audio: { ...audio, format: 'wav', durationSeconds: 6.25, channels: 1 },
    options: options(given),
  })
  /** As the gateway drives a stepper, but without its waits. */
  const drive = async (asked: TranscriptionCall, at = target): Promise<Step<TranscriptionResult>> => {
    const transcription = assemblyai.transcription!
    let step = transcription.start(asked, at)
    while (step.kind === 'send' || step.kind === 'wait') {
      const answer = await sender.send(step.request, once)
      step = transcription.next(step.state, answer, asked, at)
    }
    return step
  }
  return { provider, sender, target, call, drive, digest: createHash('sha256').update(wav).digest('hex') }
}

for (const standing of STANDINGS) {
  t.test(`a transcription over a socket, the audio as ${standing}`, async (t) => {
    const { provider, call, drive, digest } = await connect(t, standing)
    const step = await drive(call({ language: 'en-US', timestamps: 'both', smart_formatting: true }))
    t.match(step, {
      kind: 'done',
      result: {
        text: 'Smoke from hundreds of wildfires. It is in Canada.',
        language: 'en',
        words: { length: 9 },
      },
    })
    t.same([...provider.uploads.values()], [digest], 'the audio arrived as it was')
    t.same(
      provider.log.map((line) => line.replace(/5551722.*/, '…')),
      [
        'POST /v2/upload',
        'POST /v2/transcript',
        'GET /v2/transcript/…',
        'GET /v2/transcript/…',
        'GET /v2/transcript/…',
        'GET /v2/transcript/…',
      ],
    )
  })
}

t.test('what a call can ask for is taken by the provider', async (t) => {
  const { provider, call, drive, target } = await connect(t, 'identity')
  const rows: Partial<TranscriptionOptions>[] = [
    { diarization: true, speaker_count_hint: 2, redaction: ['pii', 'numbers'] },
    { multichannel: true, diarization: true, speaker_count_hint: 20, profanity_filter: true },
    { keyterms: ['Larkway'], prompt: 'a call', redaction: ['phi', 'pci'] },
    { prompt: 'a call', language: 'de', response_format: 'srt' },
    { detect_language: true, language: 'de', timestamps: 'word' },
  ]
  for (const given of rows) {
    const step = await drive(call(given), { ...target, options: { delete_after: true } })
    t.equal(step.kind, 'done', JSON.stringify(given))
  }
  const kept = [...provider.transcripts.values()]
  t.equal(kept.length, rows.length)
  t.ok(kept.every(({ deleted }) => deleted))
  t.same(kept[0]?.params.redact_pii_policies, policiesOf(['pii', 'numbers']))
})

t.test('a wrong key, and whether a key is good', async (t) => {
  const { provider, sender, call, drive, target } = await connect(t, 'identity')
  const wrong = { ...target, credential: 'wrong' }
  t.match(await drive(call(), wrong), { kind: 'failed', failure: { kind: 'credential', status: 401 } })
  t.equal(provider.transcripts.size, 0)
  const models = assemblyai.models!
  const look = async (at: Target) => {
    const first = models.start(null, at)
    if (first.kind !== 'send') throw new Error(first.kind)
    return models.next(null, await sender.send(first.request, once), null, at)
  }
  t.same(await look(target), { kind: 'done', result: [] })
  t.match(await look(wrong), { kind: 'failed', failure: { kind: 'credential' } })
})
