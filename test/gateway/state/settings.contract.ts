import type { Test } from 'tap'
import { newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

const KEEP_MS = 3_600_000

/** What workspaces set by themselves, wherever it is written. */
export function settingsContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('domains are kept in their order, each workspace its own', async (t) => {
    const { settings } = (await start(t)).state
    const [one, two] = [newWorkspace(), newWorkspace()]
    t.same(await settings.audioUrlDomains(one), [])
    await settings.putAudioUrlDomains(one, [
      'media.example.com',
      '*.cdn.example.com',
      'xn--bcher-kva.example',
    ])
    const kept = ['media.example.com', '*.cdn.example.com', 'xn--bcher-kva.example']
    t.same(await settings.audioUrlDomains(one), kept)
    t.same(await settings.audioUrlDomains(two), [])
    await settings.putAudioUrlDomains(one, ['a.example'])
    t.same(await settings.audioUrlDomains(one), ['a.example'], 'replaced as a whole')
    await settings.putAudioUrlDomains(one, [])
    t.same(await settings.audioUrlDomains(one), [])
  })

  t.test('a webhook is kept until it is removed', async (t) => {
    const { settings } = (await start(t)).state
    const [one, two] = [newWorkspace(), newWorkspace()]
    t.equal(await settings.webhook(one), null)
    t.equal(await settings.removeWebhook(one), false)
    const hook = {
      url: 'https://hooks.example.com/lk?a=b',
      secret: 'encrypted:1',
      createdAtMs: 1_900_000_000_000,
    }
    await settings.putWebhook(one, hook, KEEP_MS)
    t.same(await settings.webhook(one), { ...hook, previous: null })
    t.equal(await settings.webhook(two), null)
    t.equal(await settings.removeWebhook(two), false)
    t.equal(await settings.removeWebhook(one), true)
    t.equal(await settings.removeWebhook(one), false)
    t.equal(await settings.webhook(one), null)
    await settings.putWebhook(one, { ...hook, secret: 'encrypted:2' }, KEEP_MS)
    t.match(await settings.webhook(one), { previous: null }, 'the secret of a removed one is gone')
  })

  t.test('secrets are sealed anew in their place', async (t) => {
    const { settings } = (await start(t)).state
    const workspace = newWorkspace()
    const hook = (secret: string) => ({
      url: 'https://hooks.example.com/1',
      secret,
      createdAtMs: 1_900_000_000_000,
    })
    await settings.putWebhook(workspace, hook('one'), KEEP_MS)
    await settings.putWebhook(workspace, hook('two'), KEEP_MS)
    const before = await settings.webhook(workspace)
    if (before === null) throw new Error('there is no webhook')
    t.equal(
      await settings.resealWebhook(workspace, before, { secret: 'two again', previous: 'one again' }),
      true,
    )
    const after = { ...before, secret: 'two again', previous: { ...before.previous, secret: 'one again' } }
    t.same(await settings.webhook(workspace), after)
    t.equal(await settings.resealWebhook(workspace, before, { secret: 'three', previous: null }), false)
    t.same(await settings.webhook(workspace), after, 'another change came first')
    t.equal(await settings.resealWebhook(newWorkspace(), before, { secret: 'x', previous: null }), false)
  })

  t.test('the secret before stays valid for a while', async (t) => {
    const { state, pass } = await start(t)
    const { settings } = state
    const workspace = newWorkspace()
    const hook = (n: number) => ({
      url: `https://hooks.example.com/${n}`,
      secret: `encrypted:${n}`,
      createdAtMs: 1_900_000_000_000 + n,
    })
    await settings.putWebhook(workspace, hook(1), KEEP_MS)
    await settings.putWebhook(workspace, hook(2), KEEP_MS)
    const second = await settings.webhook(workspace)
    const untilMs = second?.previous?.untilMs ?? 0
    t.ok(Math.abs(untilMs - (Date.now() + KEEP_MS)) < 5000, 'from the clock of the state')
    t.same(second, { ...hook(2), previous: { secret: 'encrypted:1', untilMs } })
    await settings.putWebhook(workspace, hook(3), 1500)
    t.match(
      await settings.webhook(workspace),
      { ...hook(3), previous: { secret: 'encrypted:2' } },
      'one only',
    )
    await pass(1550)
    t.same(await settings.webhook(workspace), { ...hook(3), previous: null })
    await settings.putWebhook(workspace, hook(4), KEEP_MS)
    t.match(await settings.webhook(workspace), { ...hook(4), previous: { secret: 'encrypted:3' } })
  })

  t.test('content is shown of workspaces that want it', async (t) => {
    const { settings } = (await start(t)).state
    const [one, two] = [newWorkspace(), newWorkspace()]
    t.equal(await settings.contentShown(one), false)
    await settings.putContentShown(one, true)
    await settings.putContentShown(one, true)
    t.equal(await settings.contentShown(one), true)
    t.equal(await settings.contentShown(two), false)
    await settings.putContentShown(one, false)
    t.equal(await settings.contentShown(one), false)
  })

  t.test('what is forgotten is as if it had never been set, of one workspace alone', async (t) => {
    const { settings } = (await start(t)).state
    const [one, two] = [newWorkspace(), newWorkspace()]
    const hook = { url: 'https://hooks.example.com/', secret: 'encrypted:1', createdAtMs: 1_900_000_000_000 }
    for (const workspace of [one, two]) {
      await settings.putWebhook(workspace, hook, KEEP_MS)
      await settings.putWebhook(workspace, { ...hook, secret: 'encrypted:2' }, KEEP_MS)
      await settings.putAudioUrlDomains(workspace, ['a.example'])
      await settings.putContentShown(workspace, true)
    }
    await settings.forget(one)
    await settings.forget(one)
    t.equal(await settings.webhook(one), null)
    t.same(await settings.audioUrlDomains(one), [])
    t.equal(await settings.contentShown(one), false)
    t.match(await settings.webhook(two), { secret: 'encrypted:2', previous: { secret: 'encrypted:1' } })
    t.same(await settings.audioUrlDomains(two), ['a.example'])
    t.equal(await settings.contentShown(two), true)
    await settings.putWebhook(one, hook, KEEP_MS)
    t.same(await settings.webhook(one), { ...hook, previous: null })
  })

  // The answer of the first may have been lost.
  t.test('putting the same webhook again changes nothing', async (t) => {
    const { settings } = (await start(t)).state
    const workspace = newWorkspace()
    const hook = { url: 'https://hooks.example.com/', secret: 'encrypted:1', createdAtMs: 1_900_000_000_000 }
    await settings.putWebhook(workspace, hook, KEEP_MS)
    await settings.putWebhook(workspace, hook, KEEP_MS)
    t.same(await settings.webhook(workspace), { ...hook, previous: null })
    const next = { ...hook, secret: 'encrypted:2' }
    await settings.putWebhook(workspace, next, KEEP_MS)
    const first = await settings.webhook(workspace)
    await settings.putWebhook(workspace, next, KEEP_MS)
    t.same(await settings.webhook(workspace), first)
    t.equal(first?.previous?.secret, 'encrypted:1')
  })
}
