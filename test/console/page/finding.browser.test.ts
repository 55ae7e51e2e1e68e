import t, { type Test } from 'tap'
import { openBrowser } from '../../support/browser.ts'
import { type ConsoleNode, startConsoleNode, type Visitor } from '../../support/console-node.ts'
import { axeFaults, overflowOf } from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { openPerson, type Person } from '../console-person.ts'

const PHONE = { width: 375, height: 812 }
const DESK = { width: 1280, height: 900 }
const ROUTE = '/workspaces/acme/routes/acme.chat'
const slow = { provider: 'acme-own', model: 'morse-1', options: { piece_delay_ms: 120 } }
const fast = { provider: 'acme-own', model: 'morse-1-mini', capabilities: ['text'] }
const price = { price: { per_1m_input_tokens_usd: 4, per_1m_output_tokens_usd: 4 } }

async function publish(admin: Visitor, path: string, fields: object): Promise<void> {
  const saved = await admin.put(`${path}/draft`, { fields, revision: null })
  const { revision } = saved.body.draft as { revision: number }
  await admin.post(`${path}/publish`, { revision, note: 'first <b>note</b>' })
}

/** Two apps whose routes answer chats, one of them slowly, and four calls of the first. */
async function setUp(node: ConsoleNode): Promise<Visitor> {
  const admin = await node.signIn(node.keys.admin)
  await publish(admin, ROUTE, { entries: [{ ...slow, ...price }] })
  await publish(admin, '/workspaces/acme/routes/acme.mini', { entries: [fast] })
  await admin.put('/workspaces/acme/apps/chat', { route: 'acme.chat' })
  await admin.put('/workspaces/acme/apps/mini', { route: 'acme.mini' })
  const { body } = await admin.post('/workspaces/acme/keys', { name: 'chatting', app: 'chat' })
  for (let call = 0; call < 4; call += 1)
    await fetch(`${node.url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: `Bearer ${body.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
    })
  const judged = async () => (await admin.post(`${ROUTE}/impact`)).body.requests === 4
  await waitUntil(judged, 15_000, 500)
  return admin
}

/** The page as it is, in both themes and on a phone. */
async function look(t: Test, { page }: Person, what: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    t.same(await axeFaults(page), [], `axe: ${what}, ${colorScheme}`)
  }
  await page.setViewportSize(PHONE)
  t.equal(await overflowOf(page), 0, `${what} fits a phone`)
  await page.setViewportSize(DESK)
}

t.test(
  'finding, comparing, publishing and chatting',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const node = await startConsoleNode(t)
    await setUp(node)
    const browser = await openBrowser(t)
    const person = await openPerson(browser, node.url)
    await person.signIn(node.keys.admin)
    await person.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await t.test('search, by the keyboard alone', (t) => search(t, person))
    await t.test('a draft is compared, published with a note, and found on the audit log', (t) =>
      compareAndPublish(t, person),
    )
    await t.test('two answers side by side, one of them stopped', (t) => chat(t, person))
    const { said, failed, origins } = person.complaints
    t.same([...said, ...failed], [], 'nothing complains')
    t.same([...origins], [node.url], 'and no other origin is asked')
  },
)

async function search(t: Test, person: Person): Promise<void> {
  const { page } = person
  const input = page.getByRole('combobox', { name: /Page, route/ })
  const chosen = page.getByRole('option', { selected: true })
  const find = async (text: string, option: string | RegExp) => {
    await page.keyboard.press('Control+k')
    await input.waitFor()
    await input.and(page.locator(':focus')).waitFor()
    await page.keyboard.type(text)
    await page.getByRole('option').filter({ hasText: option }).first().waitFor()
  }
  await find('chat', /acme\.chat/)
  t.equal(await input.getAttribute('aria-activedescendant'), await chosen.getAttribute('id'))
  await look(t, person, 'search')
  // Down to the route, however many others there are.
  for (let at = 0; at < 12 && !/acme\.chat/.test((await chosen.textContent()) ?? ''); at += 1)
    await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'acme.chat' }).waitFor()

  await find('req_0123456789', 'req_0123456789')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/console/acme/requests?tab=log&id=req_0123456789')
  await find('acme-own', 'Provider')
  await page.keyboard.press('Escape')
  await input.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Search' }).click()
  await input.waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Search' }).and(page.locator(':focus')).waitFor()
}

async function compareAndPublish(t: Test, person: Person): Promise<void> {
  const { page, origin } = person
  await page.goto(`${origin}/console/acme/routes/acme.chat`)
  await page.getByText('Served 100 % of 4 recorded requests in the last hour').waitFor()
  await page.getByText('(first <b>note</b>)').waitFor()
  await page.getByRole('button', { name: 'Add entry' }).click()
  const picker = page.getByRole('dialog')
  await picker.getByLabel('Search models').fill('morse-1-mini')
  await picker.getByRole('radio', { name: /acme-own\/morse-1-mini/ }).check()
  await picker.getByRole('button', { name: 'Add entry' }).click()
  await page.getByRole('combobox', { name: 'Strategy' }).selectOption('weighted')
  await page.getByText('50 % of traffic').first().waitFor()
  await page.getByRole('button', { name: 'Compare with live' }).click()
  await page.getByText(/(of 4 requests would move|All 4 requests would go as now)/).waitFor()
  // A preview that is being made anew is faint.
  await page.locator('.routes-outcome[aria-busy="false"]').waitFor()
  await look(t, person, 'a draft that is compared')

  await page.getByRole('button', { name: 'Publish…' }).click()
  const dialog = person.dialog('Publish acme.chat')
  await dialog
    .getByText(/4 requests/)
    .first()
    .waitFor()
  await dialog.getByLabel('Note').fill('halves <i>the</i> load')
  await look(t, person, 'the dialog that publishes')
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click()
  await person.told(/published as version 2/)

  await person.go('Audit')
  await person.row('Changes, newest first', 'key.create').waitFor()
  await look(t, person, 'the audit log')
  await page.getByLabel('Action or target').fill('acme.chat')
  const line = person.row('Changes, newest first', 'halves <i>the</i> load')
  await line.waitFor()
  await page.waitForURL('**target=acme.chat**')
  await waitUntil(async () => (await page.getByRole('row').filter({ hasText: 'acme.mini' }).count()) === 0)
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Export CSV' }).click()
  t.match((await download).suggestedFilename(), /^audit-acme-\d{4}-\d\d-\d\d\.csv$/)
  await line.getByRole('link', { name: 'View changes' }).click()
  await page
    .getByRole('dialog', { name: 'Version 2 of acme.chat' })
    .getByText('Changes from version 1')
    .waitFor()
  await look(t, person, 'the changes of a version')
}

async function chat(t: Test, person: Person): Promise<void> {
  const { page, origin } = person
  await page.goto(`${origin}/console/acme/playground?tab=chat&app=mini`)
  await page.getByLabel('Message', { exact: true }).fill('sos sos')
  await page.getByLabel('Compare side by side').check()
  await page.getByRole('group', { name: 'Right' }).getByLabel('App').selectOption('chat')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('First token after').nth(1).waitFor()
  await waitUntil(async () => (await page.getByText('Served by').count()) === 2)
  t.match(await page.getByRole('region', { name: 'Answer of mini' }).textContent(), /\.\.\. --- \.\.\./)
  t.match(await page.getByRole('region', { name: 'Answer of chat' }).textContent(), /\.\.\. --- \.\.\./)
  await look(t, person, 'two answers')
  await page.getByRole('group', { name: 'Right' }).getByLabel('App').selectOption('web')
  const headings = page.locator('.play-pair h2')
  t.same(await headings.allTextContents(), ['mini', 'chat'], 'an answer is headed by who gave it')

  await page.getByRole('group', { name: 'Right' }).getByLabel('App').selectOption('chat')
  await page.getByLabel('Message', { exact: true }).fill(Array<string>(60).fill('sos').join(' '))
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('First token after').nth(1).waitFor()
  await page.getByLabel('Compare side by side').uncheck()
  // A side that is no longer compared continues, and is stopped with the other.
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' })
  await page.getByLabel('Compare side by side').check()
  await page.getByRole('region', { name: 'Answer of chat' }).waitFor()
  await page.getByText('had written by then may be charged').last().waitFor()
  t.equal(await page.getByRole('button', { name: 'Stop' }).count(), 0)
}
