import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'
import { doorClient, rejected, wavFile } from './openai-door.ts'

const DOOR = '/openai/v1/audio/transcriptions'
const HEARD = { text: TRANSCRIPT_DELTAS.join(''), usage: { type: 'duration', seconds: 1 } }
const MESSAGES = [{ role: 'user' as const, content: 'hello' }]

interface Rig {
  readonly larkway: Gateway
  readonly ears: Upstream
  /** Key of an app without purposes, whose plan has a model less. */
  readonly bareKey: string
}

/** One route for all that there is, and others for what is called by name. */
async function start(t: Test): Promise<Rig> {
  const ears = await startUpstream(t)
  const words = await startUpstream(t)
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const [key, bareKey] = [makeKey(), makeKey()]
  const workspace = 'acme'
  const hourly = { per_hour_usd: 1 }
  const price = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 }
  const ear = (model: string, more: object = {}) => ({
    ...{
      provider: 'ears',
      model,
      capabilities: ['audio_input'],
      hints: ['language', 'prompt'],
      price: hourly,
    },
    ...more,
  })
  const writer = (model: string) => ({
    provider: 'words',
    model,
    capabilities: ['text', 'completion'],
    price,
  })
  const main = [ear('whisper-1'), writer('writer')]
  const config = {
    providers: {
      ears: { kind: 'openai-compatible', access: 'byok', workspace, base_url: ears.url },
      words: { kind: 'openai-compatible', access: 'byok', workspace, base_url: words.url },
      sandbox: { kind: 'sandbox', access: 'byok', workspace, base_url: sandbox.url },
    },
    plans: { small: { includes: ['audio_input'] } },
    routes: {
      main: { workspace, entries: main },
      calls: {
        workspace,
        entries: [ear('org/gpt-4o-transcribe', { features: ['keyterms'] }), writer('caller')],
      },
      hidden: { workspace, published: false, entries: [ear('hidden-1')] },
      voice: {
        workspace,
        entries: [{ provider: 'sandbox', model: 'morse-1', capabilities: ['audio_output'] }],
      },
    },
    workspaces: {
      [workspace]: {
        purposes: {
          'calls.de': { description: 'in German' },
          off: { enabled: false },
          drafts: {},
          unbound: {},
        },
        apps: {
          web: {
            route: 'main',
            capability_routes: { audio_output: 'voice' },
            purposes: { 'calls.de': 'calls', off: 'calls', drafts: 'hidden' },
          },
        },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
      small: {
        plan: 'small',
        apps: { web: { route: 'small' } },
        keys: [{ id: 'key_small', app: 'web', sha256: hashKey(bareKey) }],
      },
    },
  }
  const small = {
    workspace: 'small',
    entries: [
      { provider: 'public', model: 'heard', capabilities: ['audio_input'], price: hourly },
      { provider: 'public', model: 'written', capabilities: ['text'], price },
      { provider: 'public', model: 'dear', capabilities: ['audio_input'], plans: ['large'], price: hourly },
    ],
  }
  const shared = { public: { kind: 'sandbox', access: 'platform', base_url: sandbox.url } }
  const whole = {
    ...config,
    plans: { ...config.plans, large: { includes: ['audio_input'] } },
    providers: { ...config.providers, ...shared },
    routes: { ...config.routes, small },
  }
  return { larkway: await startGateway(t, { config: whole, key }), ears, bareKey }
}

async function upload({ url, key }: Gateway, fields: Readonly<Record<string, string>>, purpose?: string) {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', wavFile(filledWav(32_044, 1)))
  const headers: Record<string, string> = { authorization: `Bearer ${key}` }
  if (purpose !== undefined) headers['x-lk-purpose'] = purpose
  const response = await fetch(`${url}${DOOR}`, { method: 'POST', headers, body: form })
  return { response, body: (await response.json()) as Record<string, unknown> }
}

t.test('model names a purpose, or nothing', { timeout: 60_000 }, async (t) => {
  const { larkway, ears } = await start(t)
  const rows: [
    name: string,
    fields: Record<string, string>,
    header: string | undefined,
    model: string,
    requested: string | null,
    source: string,
  ][] = [
    ['a name of OpenAI', { model: 'whisper-1' }, undefined, 'whisper-1', null, 'none'],
    ['none', {}, undefined, 'whisper-1', null, 'none'],
    ['empty', { model: '' }, undefined, 'whisper-1', null, 'none'],
    ['a model of another route', { model: 'org/gpt-4o-transcribe' }, undefined, 'whisper-1', null, 'none'],
    ['a purpose', { model: 'calls.de' }, undefined, 'org/gpt-4o-transcribe', 'calls.de', 'body'],
    ['one that is disabled', { model: 'off' }, undefined, 'whisper-1', 'off', 'purpose_unavailable'],
    [
      'one that is bound to nothing',
      { model: 'unbound' },
      undefined,
      'whisper-1',
      'unbound',
      'purpose_unknown',
    ],
    [
      'the field wins',
      { model: 'off', purpose: 'calls.de' },
      undefined,
      'org/gpt-4o-transcribe',
      'calls.de',
      'body',
    ],
    ['the header wins', { model: 'off' }, 'calls.de', 'org/gpt-4o-transcribe', 'calls.de', 'header'],
    [
      'an unknown one in the header wins, too',
      { model: 'calls.de' },
      'nope',
      'whisper-1',
      'nope',
      'purpose_unknown',
    ],
  ]
  for (const [name, fields, header, model, requested, source] of rows) {
    const { response, body } = await upload(larkway, fields, header)
    t.same(body, HEARD, name)
    t.equal(response.headers.get('x-lk-model'), model, name)
    t.equal(response.headers.get('x-lk-requested-purpose'), requested, name)
    t.equal(response.headers.get('x-lk-purpose-source'), source, name)
    t.equal(response.headers.get('x-lk-warnings'), null, name)
    t.equal(ears.received.at(-1)?.model, model, name)
  }
  const { openai, headers } = doorClient(larkway)
  for (const [model, answered] of [
    ['calls.de', 'caller'],
    ['gpt-4o', 'writer'],
  ] as const) {
    const chat = await openai.chat.completions.create({ model, messages: MESSAGES })
    t.same([chat.model, headers().get('x-lk-model')], [answered, answered])
    const stream = await openai.completions.create({ model, prompt: 'a', stream: true })
    t.equal(headers().get('x-lk-model'), answered, 'a stream says so when it begins')
    for await (const chunk of stream) t.equal(chunk.model, answered)
  }
})

t.test('the fields of an upload', { timeout: 60_000 }, async (t) => {
  const { larkway, ears } = await start(t)
  const plain = await upload(larkway, {
    model: 'whisper-1',
    temperature: '0.5',
    'languages[]': 'en',
    prompt: 'x',
  })
  t.same(plain.body, HEARD)
  t.equal(plain.response.headers.get('x-lk-warnings'), null)
  const arrived = { model: 'whisper-1', language: 'en', prompt: 'x', temperature: '0.5' }
  t.match(ears.received.at(-1)?.fields, arrived)
  const many = await upload(larkway, { model: 'whisper-1', languages: '["en","de"]' })
  t.match(many.response.headers.get('x-lk-warnings'), /^\["languages: /)
  t.notOk('language' in (ears.received.at(-1)?.fields ?? {}))
  const terms = await upload(larkway, { model: 'calls.de', 'keywords[]': 'lark, or two', keyterms: 'dawn' })
  t.equal(terms.response.status, 200)

  const before = ears.received.length
  const rows: [fields: Record<string, string>, status: number, param: string | null][] = [
    [{ response_format: 'xml' }, 400, 'response_format'],
    [{ stream: 'maybe' }, 400, 'stream'],
    [{ stream: 'true', response_format: 'srt' }, 400, 'response_format'],
    [{ 'timestamp_granularities[]': 'letter' }, 400, 'timestamp_granularities'],
    [{ 'keywords[]': ' ' }, 400, 'keywords'],
    [{ 'include[]': 'usage' }, 400, 'include'],
    [{ 'include[]': 'logprobs' }, 422, null],
    [{ 'known_speaker_names[]': 'Ann' }, 422, null],
    [{ 'known_speaker_references[]': 'data:audio/wav;base64,AA==' }, 422, null],
    [{ language: 'en', 'languages[]': 'de' }, 400, 'languages'],
    [{ mode: 'async' }, 400, 'mode'],
    [{ route: 'calls' }, 400, 'route'],
    [{ models: 'a' }, 400, 'models'],
    [{ 'audio.model': 'a' }, 400, 'audio.model'],
    [{ 'keywords[]': 'lark' }, 422, null],
  ]
  for (const [fields, status, param] of rows) {
    const { response, body } = await upload(larkway, { model: 'whisper-1', ...fields })
    t.equal(response.status, status, JSON.stringify(fields))
    t.match(body, { error: { param } }, JSON.stringify(fields))
  }
  t.equal(ears.received.length, before, 'nothing of it reached the provider')
  const form = new FormData()
  form.append('model', 'whisper-1')
  const headers = { authorization: `Bearer ${larkway.key}` }
  const none = await fetch(`${larkway.url}${DOOR}`, { method: 'POST', headers, body: form })
  t.match(await none.json(), { error: { code: 'INVALID_REQUEST', param: 'file' } }, 'no file at all')
})

t.test('the list of models is what the routes of the key offer', { timeout: 60_000 }, async (t) => {
  const { larkway, bareKey } = await start(t)
  const { openai } = doorClient(larkway)
  const { data, object } = (await openai.models.list()) as unknown as { data: object[]; object: string }
  t.equal(object, 'list')
  t.same(
    data.map((model) => Object.values(model)),
    [
      ['calls.de', 'model', 0, 'acme'],
      ['whisper-1', 'model', 0, 'ears'],
      ['writer', 'model', 0, 'words'],
      ['morse-1', 'model', 0, 'sandbox'],
      ['org/gpt-4o-transcribe', 'model', 0, 'ears'],
      ['caller', 'model', 0, 'words'],
    ],
  )
  t.notMatch(JSON.stringify(data), /127\.0\.0\.1|http/)
  t.match(await openai.models.retrieve('org/gpt-4o-transcribe'), { id: 'org/gpt-4o-transcribe' })
  t.match(await openai.models.retrieve('calls.de'), { id: 'calls.de', owned_by: 'acme' })
  t.match(await rejected(openai.models.retrieve('hidden-1')), { status: 404 })
  t.match(await rejected(openai.models.retrieve('off')), { status: 404 })
  const small = doorClient(larkway, { key: bareKey }).openai
  t.same(
    (await small.models.list()).data.map(({ id }) => id),
    ['heard'],
    'what the plan includes',
  )
  t.match(await rejected(doorClient(larkway, { key: makeKey() }).openai.models.list()), { status: 401 })
})
