import t from 'tap'
import type { Audio } from '../../src/contracts/audio.ts'
import type { Job } from '../../src/contracts/jobs.ts'
import { noise } from '../support/bodies.ts'
import { options } from '../support/call.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { filledWav } from '../support/wav.ts'
import { type QueueApi, startQueueApi } from './queue-api.ts'

const NO_SIGNAL = new AbortController().signal

/** A wav whose bytes do not repeat. */
function wavOf(bytes: number): Buffer {
  const wav = filledWav(bytes)
  noise(bytes - 44).copy(wav, 44)
  return wav
}

function audioOf({ work }: Job): Audio {
  if (!('audio' in work) || 'url' in work.audio) throw new Error('the job has no audio of its own')
  return work.audio
}

/** The audio as a worker would read it. */
async function heardFrom({ objects }: QueueApi, audio: Audio): Promise<Buffer> {
  const { source, offset, length } = audio
  if (source.kind !== 'object') throw new Error('the audio is not at rest')
  const chunks: Buffer[] = []
  for await (const chunk of await objects.get(source.key, offset, offset + length, NO_SIGNAL))
    chunks.push(Buffer.from(chunk))
  return Buffer.from(JSON.parse(`"${Buffer.concat(chunks).toString('latin1')}"`), 'base64')
}

t.test('audio in every form of base64 is at rest before the answer', async (t) => {
  const api = await startQueueApi(t)
  const wav = wavOf(300_044)
  const base64 = wav.toString('base64')
  const ways: Record<string, string | object> = {
    'audio.base64': {
      endpoint: 'transcription',
      payload: { language: 'en', audio: { base64, media_type: 'audio/x', filename: 'a' } },
    },
    'audio.data': { payload: { audio: { data: base64 }, language: 'en' }, endpoint: 'transcription' },
    'a data URL': {
      endpoint: 'translation',
      payload: { audio: { data: `data:audio/wav;base64,${base64}` }, language: 'en' },
    },
    'audio as text': { endpoint: 'audio', payload: { audio: base64, language: 'en' } },
    audio_base64: {
      endpoint: 'audio',
      payload: { audio_base64: base64, task: 'translation', language: 'en' },
    },
    'URL-safe base64': {
      endpoint: 'transcription',
      payload: { audio: wav.toString('base64url'), language: 'en' },
    },
    'escaped slashes': JSON.stringify({
      endpoint: 'transcription',
      payload: { audio: base64, language: 'en' },
    }).replaceAll('/', '\\/'),
  }
  for (const [way, body] of Object.entries(ways)) {
    const job = await api.enqueued(body)
    const { operation } = job.work
    t.equal(operation, way === 'a data URL' || way === 'audio_base64' ? 'translation' : 'transcription', way)
    const audio = audioOf(job)
    t.match(audio, { format: 'wav', durationSeconds: 9.375, channels: 1, decodedBytes: wav.length })
    t.match(audio.source, { kind: 'object', key: new RegExp(`^job/acme/${job.id}/`) })
    t.ok((await heardFrom(api, audio)).equals(wav), 'every byte is there')
    t.same('options' in job.work && job.work.options, options({ language: 'en' }))
  }
  t.equal((await api.kept()).length, Object.keys(ways).length, 'and nothing else')
  t.equal(api.budgetUsed(), 0, 'no memory is held')
})

t.test('the fields are those of the endpoint', async (t) => {
  const api = await startQueueApi(t)
  const audio = filledWav(3_244).toString('base64')
  const job = await api.enqueued(
    {
      endpoint: 'transcription',
      payload: {
        audio,
        purpose: 'calls',
        response_profile: 'fast',
        keyterms: ['lark'],
        timestamps: 'word',
        odd: 1,
      },
    },
    { 'x-lk-purpose': 'other' },
  )
  t.match(job, {
    selectors: { purpose: { label: 'calls', source: 'body' }, responseProfile: 'fast' },
    warnings: ['odd: unknown field, ignored'],
    work: { options: options({ keyterms: ['lark'], timestamps: 'word' }) },
  })
  const cases: [string, object, number, string, string | null][] = [
    ['a stream', { audio, stream: true }, 400, 'INVALID_REQUEST', 'payload.stream'],
    ['a job of a job', { audio, mode: 'async' }, 400, 'INVALID_REQUEST', 'payload.mode'],
    ['realtime', { audio, mode: 'realtime' }, 422, 'REQUIRED_FEATURE_UNAVAILABLE', null],
    ['no audio', { language: 'en' }, 400, 'INVALID_REQUEST', 'payload.audio'],
    ['two of it', { audio, audio_base64: audio }, 400, 'INVALID_REQUEST', 'payload.audio'],
    ['no base64', { audio: '!!' }, 400, 'INVALID_REQUEST', 'payload.audio'],
    [
      'no audio by its bytes',
      { audio: Buffer.from('just text, really').toString('base64') },
      415,
      'UNSUPPORTED_AUDIO_FORMAT',
      'payload.audio',
    ],
    ['a language that is a number', { audio, language: 1 }, 400, 'INVALID_REQUEST', 'payload.language'],
    ['a provider', { audio, provider: 'openai' }, 400, 'ROUTE_CONTROL_NOT_ALLOWED', 'payload.provider'],
    [
      'a model inside audio',
      { audio: { base64: audio, model: 'x' } },
      400,
      'ROUTE_CONTROL_NOT_ALLOWED',
      'payload.audio.model',
    ],
  ]
  const before = await api.kept()
  for (const [what, payload, status, code, param] of cases) {
    for (const endpoint of ['transcription', 'translation', 'audio']) {
      const answer = await api.post({ endpoint, payload })
      t.match([answer.status, answer.body.error], [status, { code, param }], `${what} at ${endpoint}`)
    }
  }
  const ignored = await api.post({
    endpoint: 'chat',
    payload: { model: 'x', messages: [{ role: 'user', content: 'a' }] },
  })
  t.equal(ignored.status, 202, 'elsewhere a model is ignored')
  t.same(
    (await api.kept()).filter((key) => !before.includes(key)),
    [],
    'what is refused leaves nothing',
  )
})

t.test('the limits of audio hold', async (t) => {
  const limits = { max_audio_bytes: 64_044, max_audio_seconds: 1 }
  const api = await startQueueApi(t, { limits })
  const ask = async (bytes: number) => {
    const { status, body } = await api.post({
      endpoint: 'transcription',
      payload: { audio: filledWav(bytes).toString('base64') },
    })
    return [status, body.error ?? null]
  }
  t.same(await ask(32_044), [202, null], 'a second')
  t.match(await ask(33_044), [413, { code: 'AUDIO_TOO_LONG', details: { limit: 'max_audio_seconds' } }])
  t.match(await ask(64_045), [
    413,
    {
      code: 'AUDIO_TOO_LARGE',
      param: 'payload.audio',
      details: { limit: 'max_audio_bytes', limit_bytes: 64_044 },
    },
  ])
})

t.test('what no entry keeps is refused before anything is stored', async (t) => {
  const entry = entryAt('http://127.0.0.1:1', { kind: 'sandbox' })
  const facts = { ...entry.facts, features: [], limits: { audio_formats: ['mp3' as const] } }
  const api = await startQueueApi(t, { entries: [{ ...entry, facts }], domains: ['cdn.example.com'] })
  const audio = filledWav(3_244).toString('base64')
  const url = 'https://cdn.example.com/a'
  const wrong = await api.post({ endpoint: 'transcription', payload: { audio } })
  t.match([wrong.status, wrong.body.error], [400, { param: 'payload.audio', message: /mp3, not wav/ }])
  for (const source of [audio, { url }]) {
    const speakers = await api.post({
      endpoint: 'transcription',
      payload: { audio: source, diarization: true },
    })
    t.match([speakers.status, speakers.body.error?.code], [422, 'REQUIRED_FEATURE_UNAVAILABLE'])
  }
  const unknown = await api.post({ endpoint: 'transcription', payload: { audio: { url } } })
  t.equal(unknown.status, 202, 'what a URL leads to may be mp3')
  t.same(await api.kept(), [])
})

t.test('audio by URL is left to the worker, but for its URL', async (t) => {
  const api = await startQueueApi(t, { domains: ['cdn.example.com'] })
  await api.dependencies.services.state.settings.putAudioUrlDomains('acme', ['*.own.example'])
  for (const url of ['https://cdn.example.com/a.mp3?sig=1', 'https://a.own.example/b']) {
    const job = await api.enqueued({ endpoint: 'audio', payload: { audio: { url } } })
    t.same(job.work, { operation: 'transcription', options: options(), audio: { url } })
  }
  const cases: [string, string][] = [
    ['http://cdn.example.com/a.mp3', 'scheme'],
    ['https://other.example.com/a.mp3', 'host_not_allowed'],
    ['https://own.example/a.mp3', 'host_not_allowed'],
    ['https://127.0.0.1/a.mp3', 'host_not_allowed'],
    ['https://ann:pw@cdn.example.com/a.mp3', 'credentials_in_url'],
    ['https://cdn.example.com:8443/a.mp3', 'port_not_allowed'],
  ]
  for (const [url, reason] of cases) {
    const answer = await api.post({ endpoint: 'translation', payload: { audio: { url } } })
    t.match(
      [answer.status, answer.body.error],
      [400, { code: 'AUDIO_URL_REJECTED', param: 'payload.audio.url', details: { reason } }],
    )
  }
  t.same(await api.kept(), [])
})

t.test('speech by its task', async (t) => {
  const api = await startQueueApi(t)
  const job = await api.enqueued({
    endpoint: 'audio',
    payload: { task: 'speech', input: 'hello', audio: 'AAAA' },
  })
  t.match(job, {
    endpoint: 'audio',
    work: { operation: 'speech' },
    warnings: ['audio: unknown field, ignored'],
  })
})
