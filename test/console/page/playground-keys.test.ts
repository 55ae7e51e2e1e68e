import t from 'tap'
import { AppKeys } from '../../../src/console/page/views/playground/calls.ts'
import { appRoutes, voicesOf } from '../../../src/console/page/views/playground/options.ts'
import { extensionOf } from '../../../src/console/page/views/playground/speech.ts'
import { clockTime } from '../../../src/console/page/views/playground/transcript.ts'

const HOUR_MS = 3_600_000

/** Keys that are made as they are asked for, and a gateway that knows each after a while. */
function rig({ knownAfterMs = 0, revoked = [] as string[] } = {}) {
  let nowMs = 1_000_000
  const made: { readonly key: string; readonly app: string; readonly atMs: number }[] = []
  const calls: string[] = []
  const keys = new AppKeys(
    async (app) => {
      const key = `lk_${app}_${made.length + 1}`
      made.push({ key, app, atMs: nowMs })
      return { id: `key_${made.length}`, key, app, expires_at: new Date(nowMs + HOUR_MS).toISOString() }
    },
    {
      now: () => nowMs,
      wait: async (milliseconds) => {
        nowMs += milliseconds
      },
    },
  )
  const call = (app: string, signal = new AbortController().signal) =>
    keys.call(
      app,
      signal,
      async (key) => {
        calls.push(key)
        const known = made.find((one) => one.key === key)
        const refused = revoked.includes(key) || nowMs - (known?.atMs ?? 0) < knownAfterMs
        return refused ? 401 : 200
      },
      (outcome) => 'answer' in outcome && outcome.answer === 401,
    )
  return { keys, call, calls, made, revoked, pass: (milliseconds: number) => (nowMs += milliseconds) }
}

t.test('a key is made when it is first needed, one for each app', async (t) => {
  const { call, made, pass } = rig()
  t.equal(made.length, 0)
  await Promise.all([call('web'), call('web'), call('ios')])
  t.same(made.map(({ app }) => app).sort(), ['ios', 'web'])
  pass(HOUR_MS - 60_000)
  t.equal(await call('web'), 200)
  t.equal(made.length, 3, 'one that is nearly over is not used')
})

t.test('a node that does not know the key yet is asked again for 5 seconds', async (t) => {
  const late = rig({ knownAfterMs: 3_000 })
  t.equal(await late.call('web'), 200)
  t.equal(late.made.length, 1)
  t.ok(late.calls.length > 3)
  const never = rig({ knownAfterMs: 60_000 })
  t.equal(await never.call('web'), 401)
  t.equal(never.made.length, 2, 'then another key is tried, once')
  t.ok(never.calls.length < 40, `${never.calls.length} calls, and not for ever`)
})

t.test('a key that was revoked is replaced', async (t) => {
  const { call, made, revoked, pass } = rig()
  await call('web')
  pass(60_000)
  revoked.push('lk_web_1')
  t.equal(await call('web'), 200)
  t.equal(made.length, 2)
})

t.test('what cannot be made is tried anew with the next call', async (t) => {
  let made = 0
  const keys = new AppKeys(
    async (app) => {
      if (++made === 1) throw new Error('the state does not answer')
      return { id: 'key_2', key: 'lk_2', app, expires_at: new Date(HOUR_MS).toISOString() }
    },
    { now: () => 0, wait: async () => {} },
  )
  const { signal } = new AbortController()
  const call = () =>
    keys.call(
      'web',
      signal,
      async (key) => key,
      () => false,
    )
  await t.rejects(call(), { message: 'the state does not answer' })
  t.equal(await call(), 'lk_2')
})

t.test('keys that are taken back are used no more', async (t) => {
  const { keys, call, made } = rig()
  await Promise.all([call('web'), call('ios')])
  t.same([...(await keys.takeIds())].sort(), ['key_1', 'key_2'])
  t.same(await keys.takeIds(), [])
  await call('web')
  t.equal(made.length, 3)
})

t.test('an aborted call is not made again', async (t) => {
  const { call, calls } = rig({ knownAfterMs: 60_000 })
  const abort = new AbortController()
  abort.abort()
  await t.rejects(call('web', abort.signal))
  t.equal(calls.length, 0)
})

t.test('the routes of an app', async (t) => {
  t.same(appRoutes(undefined), { transcribing: '', speaking: '' })
  t.same(appRoutes({ route: 'all' }), { transcribing: 'all', speaking: 'all' })
  t.same(appRoutes({ route: 'all', capability_routes: { audio_output: 'voices' } }), {
    transcribing: 'all',
    speaking: 'voices',
  })
  const entry = (voices: Record<string, string>) => ({ provider: 'eleven', model: 'flash', voices })
  const route = {
    name: 'voices',
    workspace: 'acme',
    managed_by: 'file' as const,
    apps: [],
    draft: null,
    published: {
      number: null,
      version: 'pv_1',
      published_at: null,
      published_by: null,
      note: null,
      fields: {
        workspace: 'acme',
        entries: [entry({ narrator: 'a' }), entry({ guide: 'b', narrator: 'c' })],
      },
    },
  }
  t.same(voicesOf(route), ['guide', 'narrator'])
  t.same(voicesOf({ ...route, published: null }), [])
})

t.test('times and types in words', async (t) => {
  t.same([0, 7.9, 754, 3_723, -1].map(clockTime), ['0:00', '0:07', '12:34', '1:02:03', '0:00'])
  t.same(['audio/mpeg', 'audio/wav; rate=8000', 'Audio/OGG', 'audio/x'].map(extensionOf), [
    'mp3',
    'wav',
    'ogg',
    'audio',
  ])
})
