import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** A second of audio. */
const WAV = filledWav(32_044, 1)

const MODEL = 'morse-1'
const entry = (provider: string, more: object = {}) => ({ provider, model: MODEL, ...more })
const forCalls = { purposes: ['calls'] }
/** Longer than any label may be. */
const LONG = `calls${'-'.repeat(500)}`

/** Label → the entries of its route. The assigned route leads to `assigned`. */
const ROUTES = {
  calls: [entry('other'), entry('tagged', forCalls)],
  untagged: [entry('tagged'), entry('other')],
  disabled: [entry('tagged')],
  unpublished: [entry('tagged')],
  mute: [entry('tagged', { capabilities: ['text'] })],
  failing: [entry('tagged', { options: { status: 500 } })],
  tired: [entry('tagged', { options: { status: 429, retry_after: 600 } })],
  brief: [entry('tagged', { limits: { max_audio_seconds: 0.5 } })],
  plain: [entry('tagged', { features: [] })],
  profiled: [entry('other', { profile: 'thinking' }), entry('tagged', { profile: 'fast' })],
}

const LABELS = [...Object.keys(ROUTES), 'unbound']

interface Keys {
  /** Its assigned route can hear. */
  readonly hearing: string
  /** Its assigned route is for text only. */
  readonly reading: string
  /** The same with another route for what is heard. */
  readonly overridden: string
}

async function start(t: Test): Promise<{ readonly gateway: Gateway; readonly keys: Keys }> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const keys = { hearing: makeKey(), reading: makeKey(), overridden: makeKey() }
  const workspace = 'acme'
  const base_url = `${new URL(sandbox.url).origin}/v1`
  const provider = { kind: 'sandbox', access: 'byok', workspace, base_url }
  const routes = Object.entries(ROUTES).map(([name, entries]) => {
    return [name, { workspace, entries, ...(name === 'unpublished' ? { published: false } : {}) }]
  })
  const bound = Object.fromEntries(Object.keys(ROUTES).map((name) => [name, name]))
  const config = {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { assigned: provider, tagged: provider, other: provider },
    routes: {
      ...Object.fromEntries(routes),
      voice: { workspace, entries: [entry('assigned')] },
      text: { workspace, entries: [entry('assigned', { capabilities: ['text'] })] },
    },
    workspaces: {
      acme: {
        purposes: Object.fromEntries(LABELS.map((label) => [label, { enabled: label !== 'disabled' }])),
        apps: {
          hearing: { route: 'voice', purposes: bound },
          reading: { route: 'text', purposes: bound },
          overridden: { route: 'text', purposes: bound, capability_routes: { audio_input: 'voice' } },
        },
        keys: Object.entries(keys).map(([app, key]) => ({ id: `key_${app}`, app, sha256: hashKey(key) })),
      },
    },
  }
  return { gateway: await startGateway(t, { config, key: keys.hearing }), keys }
}

interface Answer {
  readonly status: number
  readonly id?: string
  readonly provider?: string
  readonly lk_requested_purpose?: string | null
  readonly lk_applied_purpose?: string | null
  readonly lk_purpose_source?: string
  readonly warnings?: string[]
  readonly error?: { readonly code: string; readonly details: Record<string, unknown> }
}

interface Sent {
  readonly key?: string
  readonly header?: string
  readonly fields?: Readonly<Record<string, string>>
  readonly as?: 'raw' | 'form' | 'json'
}

/** A transcription with a purpose in the header, in the body, in both or in neither. */
async function transcribe(
  { url, key }: Gateway,
  { header, fields = {}, as = 'raw', ...sent }: Sent,
): Promise<Answer> {
  const headers: Record<string, string> = { authorization: `Bearer ${sent.key ?? key}` }
  if (header !== undefined) headers['x-lk-purpose'] = header
  let query = ''
  let body: Uint8Array | FormData | string = WAV
  if (as === 'form') {
    body = new FormData()
    for (const [name, value] of Object.entries(fields)) body.append(name, value)
    body.append('file', new Blob([WAV]), 'a.wav')
  } else if (as === 'json') {
    headers['content-type'] = 'application/json'
    body = JSON.stringify({ audio: WAV.toString('base64'), ...fields })
  } else {
    headers['content-type'] = 'audio/wav'
    query = `?${new URLSearchParams(fields)}`
  }
  const response = await fetch(`${url}/v1/transcription${query}`, { method: 'POST', headers, body })
  return { ...((await response.json()) as object), status: response.status }
}

function outcome({ status, provider, ...answer }: Answer) {
  return [status, provider, answer.lk_requested_purpose, answer.lk_applied_purpose, answer.lk_purpose_source]
}

t.test('purposes, by the wire', { timeout: 180_000 }, async (t) => {
  const { gateway, keys } = await start(t)

  t.test('every outcome', async (t) => {
    const exhausted = [null, 'fallback_purpose_exhausted'] as const
    const unavailable = [null, 'purpose_unavailable'] as const
    const rows: [
      name: string,
      sent: Sent,
      provider: string,
      requested: string | null,
      applied: string | null,
      source: string,
    ][] = [
      ['none sent', {}, 'assigned', null, null, 'none'],
      ['in the header', { header: 'calls' }, 'tagged', 'calls', 'calls', 'header'],
      ['in the query', { fields: { purpose: 'calls' } }, 'tagged', 'calls', 'calls', 'body'],
      ['in a form', { fields: { purpose: 'calls' }, as: 'form' }, 'tagged', 'calls', 'calls', 'body'],
      ['in JSON', { fields: { purpose: 'calls' }, as: 'json' }, 'tagged', 'calls', 'calls', 'body'],
      [
        'the body wins over the header',
        { header: 'disabled', fields: { purpose: 'calls' }, as: 'json' },
        'tagged',
        'calls',
        'calls',
        'body',
      ],
      [
        'an empty one in the body counts as not sent',
        { header: 'calls', fields: { purpose: ' ' }, as: 'form' },
        'tagged',
        'calls',
        'calls',
        'header',
      ],
      ['an empty one in the header too', { header: '' }, 'assigned', null, null, 'none'],
      ['none of the entries is tagged', { header: 'untagged' }, 'tagged', 'untagged', 'untagged', 'header'],
      ['misspelled', { header: 'cals' }, 'assigned', 'cals', null, 'purpose_unknown'],
      ['disabled', { header: 'disabled' }, 'assigned', 'disabled', ...unavailable],
      [
        'declared, and bound to no route',
        { header: 'unbound' },
        'assigned',
        'unbound',
        null,
        'purpose_unknown',
      ],
      ['too long for a label', { header: LONG }, 'assigned', LONG, null, 'purpose_unknown'],
      [
        'too long in a form',
        { fields: { purpose: LONG }, as: 'form' },
        'assigned',
        LONG,
        null,
        'purpose_unknown',
      ],
      [
        'too long in JSON',
        { fields: { purpose: `calls${' '.repeat(200)}x` }, as: 'json' },
        'assigned',
        `calls${' '.repeat(200)}x`,
        null,
        'purpose_unknown',
      ],
      ['unpublished', { header: 'unpublished' }, 'assigned', 'unpublished', ...unavailable],
      ['without ears', { header: 'mute' }, 'assigned', 'mute', ...unavailable],
      ['its provider fails', { header: 'failing' }, 'assigned', 'failing', ...exhausted],
      ['its provider is tired', { header: 'tired' }, 'assigned', 'tired', ...exhausted],
      ['its limit', { header: 'brief' }, 'assigned', 'brief', ...exhausted],
      [
        'its features',
        { header: 'plain', fields: { timestamps: 'word' } },
        'assigned',
        'plain',
        ...exhausted,
      ],
      ['nothing in the way', { header: 'plain' }, 'tagged', 'plain', 'plain', 'header'],
      [
        'with a profile, which picks among its entries',
        { header: 'profiled', fields: { response_profile: 'fast' } },
        'tagged',
        'profiled',
        'profiled',
        'header',
      ],
    ]
    for (const [name, sent, ...expected] of rows)
      t.same(outcome(await transcribe(gateway, sent)), [200, ...expected], name)
  })

  t.test('an entry that is not to be tried again is not', async (t) => {
    // It was tried above, and asked to be left alone; of the other the breaker opens at the fifth failure.
    for (let call = 0; call < 6; call += 1) await transcribe(gateway, { header: 'failing' })
    for (const header of ['tired', 'failing']) {
      const answer = await transcribe(gateway, { header })
      t.match(answer, { status: 200, provider: 'assigned' })
      const line = await lineOf(gateway, answer)
      t.same(
        (line.attempts as { provider: string }[]).map(({ provider }) => provider),
        ['assigned'],
        header,
      )
    }
  })

  t.test('a purpose never makes up for a capability that is missing', async (t) => {
    for (const header of ['mute', 'disabled', 'cals']) {
      const { status, error } = await transcribe(gateway, { key: keys.reading, header })
      t.equal(status, 503, header)
      t.equal(error?.code, 'NO_HEALTHY_PROVIDER', header)
    }
    const { error } = await transcribe(gateway, { key: keys.reading, header: 'mute' })
    const lack = { left: 'capability', missing: ['audio_input'], rank: null, model: MODEL }
    t.match(error?.details, {
      policy_version_id: /^pv_/,
      entries: [
        { ...lack, route: 'mute', provider: 'tagged', group: 'purpose' },
        { ...lack, route: 'text', provider: 'assigned', group: 'assigned_route' },
      ],
    })
    t.same(outcome(await transcribe(gateway, { key: keys.reading, header: 'calls' })).slice(0, 2), [
      200,
      'tagged',
    ])
    for (const header of ['mute', 'disabled', 'cals'])
      t.same(outcome(await transcribe(gateway, { key: keys.overridden, header })).slice(0, 2), [
        200,
        'assigned',
      ])
  })

  t.test('a feature that no entry keeps is refused, entry by entry', async (t) => {
    const { status, error } = await transcribe(gateway, { header: 'plain', fields: { redaction: 'pii' } })
    t.equal(status, 422)
    t.equal(error?.code, 'REQUIRED_FEATURE_UNAVAILABLE')
    t.match(error?.details.entries, [
      { route: 'plain', left: 'features', missing: ['redaction'] },
      { route: 'voice', left: 'features', missing: ['redaction'] },
    ])
  })
})

/** The log line of a request, which may come out after its answer. */
async function lineOf({ log }: Gateway, { id }: Answer): Promise<Record<string, unknown>> {
  const find = () => log.find(({ request_id }) => request_id === id)
  await waitUntil(() => find() !== undefined)
  return find() ?? {}
}
