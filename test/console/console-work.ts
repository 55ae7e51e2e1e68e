import type { Locator, Page } from 'playwright-core'
import { melody, wav } from '../support/tone.ts'
import { waitUntil } from '../support/wait-until.ts'
import type { Person } from './console-person.ts'

// Actions of people in the console, each from the view on which it begins.

export interface NewProvider {
  readonly kind: string
  /** Without the workspace. */
  readonly name: string
  readonly credential: string
  readonly address: string
}

/** As an operator, who may give an address. It ends when the provider was checked and lists models. */
export async function addProvider(operator: Person, workspace: string, provider: NewProvider): Promise<void> {
  const { page } = operator
  await operator.go('Providers')
  await page.getByRole('button', { name: 'Add provider' }).first().click()
  const form = operator.dialog('Add provider')
  await form.getByLabel('Provider type').selectOption(provider.kind)
  await form.getByLabel('Name').fill(provider.name)
  await form.getByLabel('API key').fill(provider.credential)
  await form.getByLabel('Base URL').fill(provider.address)
  await form.getByRole('button', { name: 'Add provider' }).click()
  const check = operator.dialog(`Check ${workspace}.${provider.name}`)
  await check.getByText('Connected.').waitFor()
  await check.getByRole('button', { name: 'Close' }).last().click()
}

/** Makes the draft of a route with one entry, and stays at it. */
export async function draftRoute(
  person: Person,
  { workspace, name, entry }: Readonly<Record<'workspace' | 'name' | 'entry', string>>,
): Promise<void> {
  const { page } = person
  await person.go('Routes')
  await page.getByRole('button', { name: 'Create route' }).click()
  const form = person.dialog('Create route')
  await form.getByLabel('Name').fill(name)
  await pick(form, entry)
  await form.getByRole('button', { name: 'Create draft' }).click()
  await page.getByRole('heading', { level: 1, name: `${workspace}.${name}` }).waitFor()
}

/** @param entry `provider/model` */
export async function addEntry(person: Person, entry: string): Promise<void> {
  await person.page.getByRole('button', { name: 'Add entry' }).first().click()
  const picker = person.dialog('Add an entry')
  await pick(picker, entry)
  await picker.getByRole('button', { name: 'Add entry' }).click()
  await person.page.getByRole('article', { name: entry }).waitFor()
}

async function pick(form: Locator, entry: string): Promise<void> {
  await form.getByLabel('Search models').fill(entry.split('/')[1] ?? '')
  // Other models begin with the name of this one.
  await form.getByRole('radio', { name: new RegExp(`^${entry.replaceAll('.', '\\.')} `) }).check()
}

/** The entries on the screen, in their order. */
export function entriesOf({ page }: Person): Promise<string[]> {
  return page.getByRole('article').evaluateAll((all) => all.map((one) => String(one.ariaLabel)))
}

/**
 * Publishes the route that is open.
 *
 * @param serves what the question says of the apps that it is for
 * @returns the version that the page shows from then on
 */
export async function publishRoute(person: Person, route: string, serves: string): Promise<string> {
  const { page } = person
  await page.getByRole('button', { name: 'Publish…' }).click()
  const dialog = person.dialog(`Publish ${route}`)
  await dialog.getByText(serves).waitFor()
  const before = await versionOf(person)
  await dialog.getByRole('button', { name: 'Publish' }).click()
  await person.told(new RegExp(`${route} published as version \\d`))
  await waitUntil(async () => (await versionOf(person)) !== before)
  return versionOf(person)
}

/** Version of the open route, as the page shows it. */
export async function versionOf({ page }: Person): Promise<string> {
  const shown = page.locator('[data-version]')
  return (await shown.count()) === 0 ? '' : ((await shown.getAttribute('data-version')) ?? '')
}

export async function makeApp(person: Person, app: string, route: string): Promise<void> {
  await person.go('Apps')
  await person.page.getByRole('button', { name: 'Create app' }).click()
  const form = person.dialog('Create app')
  await form.getByLabel('ID', { exact: true }).fill(app)
  await form.getByLabel('Route', { exact: true }).selectOption(route)
  await form.getByRole('button', { name: 'Create app' }).click()
  await person.row('Apps', app).getByRole('link', { name: route }).waitFor()
}

/** @returns the dialog that shows the new key, once, and the key as its button copies it */
export async function makeKey(
  person: Person,
  name: string,
  app: string,
): Promise<{ readonly shown: Locator; readonly key: string }> {
  const { page } = person
  await person.go('Keys')
  await page.getByRole('button', { name: 'Create key' }).click()
  const form = person.dialog('Create key')
  await form.getByLabel('Name').fill(name)
  await form.getByLabel('App').selectOption(app)
  await form.getByRole('button', { name: 'Create key' }).click()
  const shown = person.dialog(`Key ${name} for the app ${app}`)
  await shown.getByRole('button', { name: 'Copy API key' }).click()
  return { shown, key: await clipboardOf(page) }
}

export async function clipboardOf(page: Page): Promise<string> {
  return String(await page.evaluate('navigator.clipboard.readText()'))
}

/** Sends as fast as a line of so many bytes a second does; -1: as fast as it can. */
export async function throttle({ page }: Person, uploadThroughput: number): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput }
  await session.send('Network.emulateNetworkConditions', conditions)
}

/** Drops a wav on the playground, as a hand does. */
export async function dropFile({ page }: Person, name: string, bytes: Buffer): Promise<void> {
  // It comes to the page by a way of its own, since what is dropped is made there.
  const url = `/dropped/${name}`
  await page.route(`**${url}`, (route) => route.fulfill({ body: bytes, contentType: 'audio/wav' }))
  const dataTransfer = await page.evaluateHandle(`(async () => {
    const dropped = new DataTransfer()
    const bytes = await (await fetch('${url}')).blob()
    dropped.items.add(new File([bytes], '${name}', { type: 'audio/wav' }))
    return dropped
  })()`)
  await page.unroute(`**${url}`)
  const zone = page.getByText('Nothing is uploaded until you press Transcribe')
  for (const event of ['dragenter', 'dragover']) await zone.dispatchEvent(event, { dataTransfer })
  await page.getByText('Drop it here').waitFor()
  await zone.dispatchEvent('drop', { dataTransfer })
}

/** The bar of an upload that is under way. */
export function uploadBar({ page }: Person): Locator {
  return page.getByRole('progressbar', { name: 'Uploading' })
}

/** Values of the bar while it was there, as shares of the file. */
export async function watchUpload(person: Person): Promise<readonly number[]> {
  const bar = uploadBar(person)
  await bar.waitFor()
  const shares: number[] = []
  while ((await bar.count()) > 0) {
    const share = await shareOf(bar)
    if (!Number.isNaN(share) && share !== shares.at(-1)) shares.push(share)
  }
  return shares
}

/** @returns NaN when it has gone meanwhile */
export async function shareOf(bar: Locator): Promise<number> {
  const position = bar.evaluate((one) => Number(one.position), undefined, { timeout: 1_000 })
  return position.catch(() => Number.NaN)
}

/** How soon every node serves what was published, and refuses what was revoked. */
export const SOON_MS = 5_000

/** Transcribes with a key of an app. `version` is that of the route that served. */
export async function transcribe({ url }: { readonly url: string }, key: string) {
  const response = await fetch(`${url}/v1/transcription`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'audio/wav' },
    body: wav([melody(2, 16_000)], 16_000),
  })
  const answer = (await response.json()) as Record<string, unknown>
  return { status: response.status, answer, version: String(answer.policy_version_id) }
}
