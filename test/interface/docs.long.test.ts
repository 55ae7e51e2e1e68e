import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { openBrowser } from '../support/browser.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { axeFaults, faintTexts, namelessParts, overflowOf } from '../support/page-checks.ts'
import { withoutServers } from '../support/servers.ts'

const WAIT = { timeout: 60_000 }

interface Visit {
  readonly page: Page
  /** Origins that the page asked. */
  readonly asked: ReadonlySet<string>
  /** Complaints of the browser, refusals of the content security policy among them. */
  readonly complaints: readonly string[]
}

async function visit(browser: Browser, { url }: Pick<Gateway, 'url'>): Promise<Visit> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  const asked = new Set<string>()
  const complaints: string[] = []
  page.on('request', (request) => asked.add(new URL(request.url()).origin))
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  await page.goto(`${url}/docs`)
  await page.locator('.opblock').first().waitFor(WAIT)
  return { page, asked, complaints }
}

/** Opens an operation, and its form. */
async function tryOut(page: Page, id: string) {
  const operation = page.locator(`[id$="-${id}"].opblock`)
  await operation.locator('.opblock-summary-control').click()
  await operation.locator('.try-out__btn').click(WAIT)
  return operation
}

type Operation = Awaited<ReturnType<typeof tryOut>>

/** Sends what the form holds. @returns status and body, as the page shows them */
async function execute(operation: Operation): Promise<readonly [status: string, body: string]> {
  await operation.locator('.execute').click()
  const answer = operation.locator('.live-responses-table .response')
  await answer.waitFor(WAIT)
  const status = await answer.locator('.response-col_status').textContent()
  return [
    status?.trim() ?? '',
    (await answer.locator('.response-col_description .highlight-code').first().textContent()) ?? '',
  ]
}

t.test(
  'the page is read, and calls are made with it',
  { skip: withoutServers, timeout: 180_000 },
  async (t) => {
    const larkway = await startGateway(t)
    const browser = await openBrowser(t)
    const { page, asked, complaints } = await visit(browser, larkway)
    t.match(await page.title(), 'Larkway')
    const document = (await (await fetch(`${larkway.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const operations = Object.values(document.paths).flatMap((methods) => Object.keys(methods))
    t.equal(
      await page.locator('.opblock').count(),
      operations.length + 1,
      'all operations and the webhook are there',
    )
    t.equal(await page.locator('.errors-wrapper').count(), 0, 'the page finds no fault in the document')

    await page.locator('.btn.authorize').click()
    await page.locator('.auth-container input').fill(larkway.key)
    await page.locator('.auth-btn-wrapper .authorize').click()
    await page.locator('.btn-done').click()

    const speech = await tryOut(page, 'speech')
    await speech.locator('textarea').first().fill('{"input":"e e t"}')
    const [spoken, envelope] = await execute(speech)
    t.equal(spoken, '200')
    t.match(envelope, /"output_audio"/)

    const audio = await (
      await fetch(`${larkway.url}/v1/speech`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${larkway.key}`,
          'content-type': 'application/json',
          accept: 'audio/wav',
        },
        body: '{"input":"sos"}',
      })
    ).arrayBuffer()
    const transcription = await tryOut(page, 'transcription')
    const file = { name: 'sos.wav', mimeType: 'audio/wav', buffer: Buffer.from(audio) }
    await transcription.locator('input[type=file]').setInputFiles(file)
    const [heard, transcript] = await execute(transcription)
    t.equal(heard, '200', transcript)
    t.match(transcript, /"content": "sos"/)

    t.same([...asked], [larkway.url], 'no one else was asked')
    t.same(complaints, [])
    t.same(await page.evaluate('[localStorage.length, document.cookie]'), [0, ''], 'the key is kept nowhere')
  },
)

t.test(
  'the page looks like the console, and can be read and used by all',
  { skip: withoutServers, timeout: 180_000 },
  async (t) => {
    const larkway = await startGateway(t)
    const browser = await openBrowser(t)
    const { page, complaints } = await visit(browser, larkway)
    const transcription = await tryOut(page, 'transcription')
    const file = { name: 'sos.wav', mimeType: 'audio/wav', buffer: Buffer.from('RIFF') }
    await transcription.locator('input[type=file]').setInputFiles(file)
    await execute(transcription)
    const curl = (await transcription.locator('.curl').textContent()) ?? ''
    t.match(curl, "-F 'file=@sos.wav")
    t.notMatch(curl, /-F '\w+='/, 'a field that is left empty is not sent')

    for (const [colorScheme, ground] of [
      ['light', 'rgb(251, 251, 250)'],
      ['dark', 'rgb(17, 19, 22)'],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      t.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), ground, colorScheme)
      t.same(await faintTexts(page), [], `${colorScheme}: texts can be read`)
      t.same(await axeFaults(page), [], `${colorScheme}: axe`)
    }
    t.same(await namelessParts(page), [], 'all parts have names')
    t.same(await page.evaluate(STRUCTURE), { nested: 0, mains: 1, skipped: [] })
    await page.setViewportSize({ width: 390, height: 844 })
    t.equal(await overflowOf(page), 0, `a phone shows its whole width: ${await page.evaluate(WIDE)}`)
    t.same(
      complaints.filter((text) => !text.includes('401')),
      [],
    )
    await page.getByRole('link', { name: 'Console' }).click()
    await page.getByLabel('API key').waitFor(WAIT)
  },
)

/** Elements that reach beyond the window. */
const WIDE = `[...document.querySelectorAll('#reference *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.tagName + '.' + one.className).slice(0, 5).join(' ')`

/** Controls within controls, landmarks, and headings that skip a level. */
const STRUCTURE = `(() => {
  const levels = [...document.querySelectorAll('h1, h2, h3, h4, h5')]
    .filter((one) => one.checkVisibility())
    .map((one) => [Number(one.ariaLevel ?? one.tagName[1]), one.textContent.trim()])
  const skipped = levels.filter(([level], index) => level > (levels[index - 1]?.[0] ?? 0) + 1)
  const nested = document.querySelectorAll(':is(button, a[href], summary) :is(button, a[href], input, select)')
  return { nested: nested.length, mains: document.querySelectorAll('main:not([role])').length, skipped }
})()`

t.test('nothing of the page is inline, and nothing comes from elsewhere', async (t) => {
  const { url } = await startGateway(t)
  const page = await fetch(`${url}/docs`)
  const policy = page.headers.get('content-security-policy') ?? ''
  t.notMatch(policy, /unsafe|https?:|\*/)
  t.match(policy, /^default-src 'none'; script-src 'self'; /)
  const html = await page.text()
  t.notMatch(html, /<script>|<style|\bstyle=|\son\w+=|https?:/)
  for (const [, path = ''] of html.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)) {
    const file = await fetch(`${url}/${path}`)
    t.equal(file.status, 200, path)
    await file.body?.cancel()
  }
  for (const path of [
    '/docs/',
    '/docs/swagger-ui.js',
    '/docs/package.json',
    '/docs/%2e%2e%2fpage.ts',
    '/docs/page.ts',
  ])
    t.equal((await fetch(url + path)).status, 404, path)
})
