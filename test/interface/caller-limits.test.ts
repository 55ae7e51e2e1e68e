import { writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { type AppPrincipal, limitsOfApp } from '../../src/contracts/catalog.ts'
import { DEFAULT_LIMITS, type Limits } from '../../src/contracts/limits.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { waysIn } from '../support/ways-in.ts'

const keys = { web: makeKey(), widget: makeKey(), greedy: makeKey(), beta: makeKey(), free: makeKey() }
type Caller = keyof typeof keys

const SECOND_BYTES = 32_000
const PRICE = {
  per_hour_usd: 0.1,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}
const CREDITS = { credits_usd: 100, grant_id: 'first' }
const OF_ALL = { max_audio_bytes: 200_000, max_request_body_bytes: 600_000 }
const OF_PLAN = { max_audio_bytes: 400_000, max_request_body_bytes: 1_000_000, max_audio_seconds: 9 }

function configuration(planned: Partial<Limits> = OF_PLAN) {
  const key = (name: Caller, app: string) => ({ id: `key_${name}`, app, sha256: hashKey(keys[name]) })
  const route = (workspace: string) => ({
    workspace,
    entries: [{ provider: 'sandbox', model: 'morse-1', price: PRICE }],
  })
  return {
    limits: OF_ALL,
    plans: { pro: { includes: ['audio_input', 'text'], limits: planned } },
    providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
    routes: { acme: route('acme'), beta: route('beta'), free: route('free') },
    workspaces: {
      acme: {
        ...CREDITS,
        plan: 'pro',
        apps: {
          web: { route: 'acme' },
          widget: { route: 'acme', limits: { max_audio_bytes: 100_000 } },
          greedy: { route: 'acme', limits: { max_audio_bytes: 5 * 1024 ** 3, max_audio_seconds: 1_000 } },
        },
        keys: [key('web', 'web'), key('widget', 'widget'), key('greedy', 'greedy')],
      },
      beta: {
        ...CREDITS,
        plan: 'pro',
        limits: { max_audio_seconds: 4 },
        apps: { web: { route: 'beta' } },
        keys: [key('beta', 'web')],
      },
      free: { ...CREDITS, apps: { web: { route: 'free' } }, keys: [key('free', 'web')] },
    },
  }
}

const LIMITS: Record<Caller, Limits> = {
  web: { ...DEFAULT_LIMITS, ...OF_ALL, ...OF_PLAN },
  widget: { ...DEFAULT_LIMITS, ...OF_ALL, ...OF_PLAN, max_audio_bytes: 100_000 },
  // An app may have less than its workspace, which its admins could else exceed.
  greedy: { ...DEFAULT_LIMITS, ...OF_ALL, ...OF_PLAN },
  beta: { ...DEFAULT_LIMITS, ...OF_ALL, ...OF_PLAN, max_audio_seconds: 4 },
  free: { ...DEFAULT_LIMITS, ...OF_ALL },
}
const CALLERS = Object.keys(LIMITS) as Caller[]

const authorizationOf = (caller: Caller) => ({ authorization: `Bearer ${keys[caller]}` })

async function limitsOf({ url }: Gateway, caller: Caller): Promise<Limits> {
  const response = await fetch(`${url}/v1/me`, { headers: authorizationOf(caller) })
  return ((await response.json()) as { limits: Limits }).limits
}

/** What becomes of a body: its status, and the code of the error. */
async function outcomeOf({ url }: Gateway, caller: Caller, path: string, { type, body, query = '' }: Sent) {
  const headers = { ...authorizationOf(caller), 'content-type': type }
  const response = await fetch(`${url}${path}${query}`, { method: 'POST', headers, body })
  const { error } = (await response.json()) as { error?: { code: string; details?: Record<string, unknown> } }
  return { status: response.status, code: error?.code, details: error?.details }
}
type Sent = ReturnType<typeof waysIn>[string]

/** A recording of so many bytes with its header. */
const wavOf = (bytes: number) => filledWav(bytes, 1)

t.test('the limits of a plan, a workspace and an app', async (t) => {
  const gateway = await startGateway(t, { config: configuration() })

  t.test('are told to their callers', async (t) => {
    for (const caller of CALLERS) t.same(await limitsOf(gateway, caller), LIMITS[caller], caller)
  })

  t.test('bound audio by its bytes, however it is sent', async (t) => {
    for (const caller of CALLERS) {
      const { max_audio_bytes: most, max_audio_seconds: seconds } = LIMITS[caller]
      // As much as its seconds allow.
      const fits = Math.min(most, 44 + (seconds ?? 100) * SECOND_BYTES)
      const [within, beyond] = [waysIn(wavOf(fits)), waysIn(wavOf(most + 2))]
      for (const way of ['multipart, field before', 'audio.base64', 'raw body']) {
        t.match(await outcomeOf(gateway, caller, '/v1/transcription', within[way]!), { status: 200 }, way)
        t.match(
          await outcomeOf(gateway, caller, '/v1/transcription', beyond[way]!),
          { status: 413, code: 'AUDIO_TOO_LARGE', details: { limit: 'max_audio_bytes', limit_bytes: most } },
          `${caller}, ${way}`,
        )
      }
    }
  })

  t.test('hold at every door and for jobs', async (t) => await holdAtEveryDoor(t, gateway))

  t.test('bound bodies', async (t) => {
    for (const caller of CALLERS) {
      const { max_request_body_bytes: most } = LIMITS[caller]
      const text = JSON.stringify({ messages: [{ role: 'user', content: '' }] })
      const body = (bytes: number) =>
        Buffer.from(text.replace('""', JSON.stringify('x'.repeat(bytes - text.length))))
      const ask = (bytes: number) =>
        outcomeOf(gateway, caller, '/v1/chat', { type: 'application/json', body: body(bytes) })
      t.match(await ask(most), { status: 200 }, caller)
      t.match(await ask(most + 1), { status: 413, code: 'REQUEST_TOO_LARGE', details: { limit_bytes: most } })
    }
  })

  t.test('bound the length of audio', async (t) => {
    for (const caller of ['web', 'beta'] as const) {
      const { max_audio_seconds: seconds } = LIMITS[caller]
      const long = waysIn(wavOf(44 + (seconds! + 1) * SECOND_BYTES))['raw body']!
      t.match(await outcomeOf(gateway, caller, '/v1/transcription', long), {
        status: 413,
        code: 'AUDIO_TOO_LONG',
        details: { limit: 'max_audio_seconds', limit_seconds: seconds },
      })
    }
  })
})

async function holdAtEveryDoor(t: Test, gateway: Gateway): Promise<void> {
  const [small, large] = [wavOf(100_000), wavOf(250_000)]
  const form = (wav: Buffer, fields: Readonly<Record<string, string>> = {}) => {
    const data = new FormData()
    data.set('file', new Blob([wav], { type: 'audio/wav' }), 'a.wav')
    for (const [name, value] of Object.entries(fields)) data.set(name, value)
    return data
  }
  const doors: Record<string, (wav: Buffer) => { body: FormData | Buffer; type?: string }> = {
    '/v1/transcription/jobs': (wav) => ({ body: form(wav) }),
    '/openai/v1/audio/transcriptions': (wav) => ({ body: form(wav, { model: 'whisper-1' }) }),
    '/deepgram/v1/listen': (body) => ({ body, type: 'audio/wav' }),
    '/elevenlabs/v1/speech-to-text': (wav) => ({ body: form(wav, { model_id: 'scribe_v2' }) }),
    '/assemblyai/v2/upload': (body) => ({ body, type: 'application/octet-stream' }),
  }
  for (const [path, bodyOf] of Object.entries(doors)) {
    const status = async (caller: Caller, wav: Buffer) => {
      const { body, type } = bodyOf(wav)
      const headers = { ...authorizationOf(caller), ...(type === undefined ? {} : { 'content-type': type }) }
      const response = await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body })
      await response.arrayBuffer()
      return response.status
    }
    t.ok((await status('web', large)) < 400, `${path}: the plan allows it`)
    t.ok((await status('free', small)) < 400, path)
    t.equal(await status('free', large), 413, `${path}: it is over what everyone may send`)
    t.equal(await status('widget', large), 413, `${path}: it is over what the app may send`)
  }
}

t.test('a change of a plan is in force for its keys once it is read', async (t) => {
  const gateway = await startGateway(t, { config: configuration() })
  t.equal((await limitsOf(gateway, 'web')).max_audio_bytes, OF_PLAN.max_audio_bytes)
  const changed = { ...OF_PLAN, max_audio_bytes: 300_000 }
  await writeFile(`${gateway.dataFolder}/larkway.yaml`, JSON.stringify(configuration(changed)))
  t.ok(await waitUntil(async () => (await limitsOf(gateway, 'web')).max_audio_bytes === 300_000, 10_000))
  t.equal((await limitsOf(gateway, 'widget')).max_audio_bytes, 100_000, 'its app has its own')
  const large = waysIn(wavOf(350_000))['raw body']!
  t.match(await outcomeOf(gateway, 'web', '/v1/transcription', large), { status: 413 })
})

t.test('a job by URL runs under the limits of its app, and of all where that is gone', async (t) => {
  const own: Limits = { ...DEFAULT_LIMITS, max_audio_url_bytes: 5 }
  const app = { limits: own } as AppPrincipal
  const snapshot = { limits: DEFAULT_LIMITS, apps: new Map([['acme', new Map([['web', app]])]]) }
  t.equal(limitsOfApp({ workspace: 'acme', app: 'web' }, snapshot), own)
  t.equal(limitsOfApp({ workspace: 'acme', app: 'gone' }, snapshot), DEFAULT_LIMITS)
  t.equal(limitsOfApp({ workspace: 'gone', app: 'web' }, snapshot), DEFAULT_LIMITS)
})
