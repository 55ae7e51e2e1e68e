import t, { type Test } from 'tap'
import { openBrowser } from '../support/browser.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { withoutServers } from '../support/servers.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { drag, openPerson, type Person } from './console-person.ts'
import {
  addEntry,
  addProvider,
  draftRoute,
  entriesOf,
  makeApp,
  makeKey,
  type NewProvider,
  publishRoute,
  SOON_MS,
  transcribe,
} from './console-work.ts'

/** Longer than any text that the page shows on purpose. */
const OPENAI_KEY = 'sk-journey-0123456789abcdef'
interface Journey {
  readonly larkway: Larkway
  readonly operator: Person
  /** Hears without telling speakers apart. */
  readonly openai: Upstream
  /** Hears, and tells speakers apart. */
  readonly deepgramUrl: string
}

async function openJourney(t: Test): Promise<Journey> {
  const larkway = await startLarkway(t)
  return {
    larkway,
    operator: await openPerson(await openBrowser(t), larkway.url),
    openai: await startUpstream(t),
    deepgramUrl: (await startUpstream(t, { dialect: deepgramDialect() })).url,
  }
}

async function signIn(t: Test, { operator, larkway }: Journey): Promise<void> {
  const { page } = operator
  const wrong = `lk_live_${'a'.repeat(43)}_000000`
  await operator.signIn(wrong)
  await page.getByText('This key isn’t valid').waitFor()
  t.equal(await page.getByLabel('API key').getAttribute('aria-invalid'), 'true', 'a wrong key is said to be')
  await operator.signIn(larkway.key)
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  t.match(page.url(), /\/console\/demo\/overview$/)
  t.ok(await page.getByRole('navigation').getByText('Platform').isVisible(), 'an operator sees the platform')
}

async function provide(t: Test, { operator }: Journey, provider: NewProvider): Promise<void> {
  const { page } = operator
  await addProvider(operator, 'demo', provider)
  const row = operator.row('Providers', `demo.${provider.name}`)
  t.match(await row.textContent(), '•••• saved')
  await row.getByRole('button', { name: 'Edit' }).click()
  const again = operator.dialog(`Edit provider demo.${provider.name}`)
  t.equal(await again.getByLabel('API key').inputValue(), '', 'the credential is not shown again')
  t.notMatch(await page.content(), provider.credential)
  await again.getByRole('button', { name: 'Cancel' }).click()
}

async function buildRoute(t: Test, { operator }: Journey): Promise<string> {
  const { page } = operator
  await draftRoute(operator, { workspace: 'demo', name: 'voice', entry: 'demo.openai/whisper-1' })
  await addEntry(operator, 'demo.deepgram/nova-3')
  const whisperFirst = ['Entry 1: demo.openai/whisper-1', 'Entry 2: demo.deepgram/nova-3']
  t.same(await entriesOf(operator), whisperFirst)
  await page.getByRole('button', { name: 'Move demo.openai/whisper-1' }).press('ArrowDown')
  await page.getByRole('article', { name: 'Entry 1: demo.deepgram/nova-3' }).waitFor()
  t.same(await entriesOf(operator), ['Entry 1: demo.deepgram/nova-3', 'Entry 2: demo.openai/whisper-1'])
  const grip = (model: string) => page.getByRole('button', { name: `Move demo.${model}` })
  await drag(page, grip('deepgram/nova-3'), grip('openai/whisper-1'))
  await page.getByRole('article', { name: 'Entry 1: demo.openai/whisper-1' }).waitFor()
  t.same(await entriesOf(operator), whisperFirst, 'moved by keys, and back by the mouse')

  const outcome = page.getByRole('region', { name: 'Preview result' })
  await outcome.getByText('demo.openai/whisper-1 is selected').waitFor()
  await page.getByRole('checkbox', { name: 'Diarization' }).check()
  await outcome.getByText('demo.deepgram/nova-3 is selected').waitFor()
  const left = page.getByRole('article', { name: 'Entry 1' }).getByText('Skipped:')
  t.match(await left.textContent(), 'diarization', 'and the other is left out, with the reason')
  await page.getByRole('article', { name: 'Entry 2' }).getByText('Selected').waitFor()
  await page.getByRole('checkbox', { name: 'Diarization' }).uncheck()
  await outcome.getByText('demo.openai/whisper-1 is selected').waitFor()
  await page.locator('[data-phase="same"]').waitFor()
  await page.getByRole('tab', { name: 'Changes' }).click()
  await page.getByRole('heading', { name: 'Side by side' }).waitFor()
  for (const model of ['whisper-1', 'nova-3'])
    await page.getByRole('tabpanel').getByText(model).filter({ visible: true }).first().waitFor()
  return publishRoute(operator, 'demo.voice', 'No app yet')
}

async function keepKey(t: Test, { operator }: Journey): Promise<string> {
  const { shown, key } = await makeKey(operator, 'traveller', 'web')
  t.match(key, /^lk_/)
  const stored = shown.getByLabel('I have stored the key')
  t.ok(await stored.isChecked(), 'who copied it has stored it')
  await stored.uncheck()
  t.ok(await shown.getByRole('button', { name: 'Done' }).isDisabled(), 'it stays until it is stored')
  await stored.check()
  await shown.getByRole('button', { name: 'Done' }).click()
  await operator.row('Keys', 'traveller').waitFor()
  t.notMatch(await operator.page.content(), key, 'and then it is gone')
  return key
}

async function callAndLook(t: Test, journey: Journey, key: string, version: string): Promise<void> {
  const { operator, openai } = journey
  const { page } = operator
  let served = await transcribe(journey.larkway, key)
  await waitUntil(async () => {
    if (served.status === 401) served = await transcribe(journey.larkway, key)
    return served.status !== 401
  }, SOON_MS)
  t.match(served, { status: 200, version }, 'the version that the page shows serves')
  openai.behave('whisper-1', { status: 503 })
  const { status, answer } = await transcribe(journey.larkway, key)
  openai.behave('whisper-1', {})
  t.equal(status, 200)
  t.match(answer.content, /^Heard [0-9a-f]{64} as audio\/wav\.$/, 'the second entry has served')

  await operator.go('Requests')
  const row = operator.row('Requests', 'after 1 failover').first()
  t.match(await row.textContent(), 'demo.deepgram/nova-3')
  await row.getByRole('link').click()
  await page.getByRole('heading', { level: 1, name: 'POST /v1/transcription' }).waitFor()
  const [failed, answered, ...more] = await page
    .getByRole('listitem')
    .filter({ hasText: /demo\.(openai|deepgram)\// })
    .allTextContents()
  t.match(failed, /demo\.openai\/whisper-1[\s\S]*503[\s\S]*\d ms[\s\S]*\w/, 'what failed, when and why')
  t.match(answered, /demo\.deepgram\/nova-3[\s\S]*\d ms[\s\S]*answered/)
  t.same(more, [])
  t.ok(await page.getByText(version).isVisible())
}

async function revoke(t: Test, journey: Journey, key: string): Promise<void> {
  const { operator } = journey
  await operator.go('Keys')
  await operator.row('Keys', 'traveller').getByRole('button', { name: 'Revoke traveller' }).click()
  const confirm = operator.dialog('Revoke the key traveller?')
  await confirm.getByRole('button', { name: 'Revoke key' }).click()
  await operator.told('Key traveller revoked')
  const isRefused = async () => (await transcribe(journey.larkway, key)).status === 401
  t.ok(await waitUntil(isRefused, SOON_MS), 'it is refused within 5 s')
  await operator.row('Keys', 'traveller').getByText('revoked').waitFor()
}

/** All that was done, in its order; not the keys of an hour that the playground has made for itself. */
const AUDITED = [
  ...['provider.publish provider/demo.openai', 'provider.publish provider/demo.deepgram'],
  ...['route.draft route/demo.voice', 'route.publish route/demo.voice', 'app.publish app/demo/web'],
  'key.create key/key',
  'key.revoke key/key',
]

async function audit(t: Test, { operator }: Journey): Promise<void> {
  await operator.go('Audit')
  const table = operator.page.getByRole('table', { name: 'Changes, newest first' })
  await table.waitFor()
  const rows = (await table.getByRole('row').all()).slice(1).reverse()
  const lines = await Promise.all(
    rows.map((row) => row.getByRole('cell').or(row.getByRole('rowheader')).allInnerTexts()),
  )
  const done = lines.map(([_when, action, target]) => `${action} ${target}`.replace(/_\w+$/, ''))
  t.same(done, AUDITED)
  for (const [when = '', _action, _target, who] of lines) {
    t.match(when, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\S*$/)
    t.match(who, /^operator\s+console$/, 'by whom, and by which way')
  }
}

/** Requests of a view are dropped when it is left. */
async function leaveWhileItLoads({ operator }: Journey): Promise<void> {
  const { page } = operator
  const held = /\/console\/api\/workspaces\/[^/]+\/(models|routes\/.+)$/
  await page.route(held, () => {})
  const asked = page.waitForRequest(held)
  await operator.go('Playground')
  await asked
  const ended = page.waitForEvent('requestfailed')
  await operator.go('Audit')
  await ended
  await page.unroute(held)
}

t.test(
  'the way of an operator through the console',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const journey = await openJourney(t)
    const { operator, openai, deepgramUrl } = journey
    // Each step needs those before it.
    const step = (name: string, take: (t: Test) => Promise<void>) =>
      t.test(name, { skip: !t.passing() }, take)
    await step('a key signs in', (t) => signIn(t, journey))
    await step('providers are added with their credentials', async (t) => {
      const own = { credential: OPENAI_KEY, address: openai.url }
      await provide(t, journey, { kind: 'openai', name: 'openai', ...own })
      const other = { credential: DEEPGRAM_KEY, address: deepgramUrl }
      await provide(t, journey, { kind: 'deepgram', name: 'deepgram', ...other })
    })
    let version = ''
    await step('a route is built, explained and published', async (t) => {
      version = await buildRoute(t, journey)
      t.match(version, /^pv_\w+/)
    })
    let key = ''
    await step('an app leads to it, and a key authenticates the app', async (t) => {
      await makeApp(operator, 'web', 'demo.voice')
      key = await keepKey(t, journey)
    })
    await step('a call is served, and its attempts appear', (t) => callAndLook(t, journey, key, version))
    await step('a key is revoked', (t) => revoke(t, journey, key))
    await step('the audit list tells all of it', (t) => audit(t, journey))
    await step('a view is left while it loads', () => leaveWhileItLoads(journey))
    t.same(operator.complaints.said, [])
    t.same(operator.complaints.failed, [])
    t.same([...operator.complaints.origins], [operator.origin])
  },
)
