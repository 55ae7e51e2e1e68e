import type { Browser, BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { openBrowser } from '../support/browser.ts'
import { filledWav } from '../support/wav.ts'
import { PAYLOADS, type ScriptedWorkspace, startScriptedWorkspace } from './scripted-workspace.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'
/** Buttons of one view that are pressed. */
const PRESSES = LONG ? 60 : 2
/** What would end the session, or go on for long. */
const LEFT_ALONE = /sign out|record|microphone|test|check|load more|transcribe|speak/i

const WORKSPACE_VIEWS = [
  ...[
    ...['overview', 'routes', 'providers', 'apps', 'keys', 'playground', 'requests', 'jobs', 'settings'],
    'audit',
  ],
].map((view) => `/console/acme/${view}`)
const PLATFORM_VIEWS = [
  ...['overview', 'workspaces', 'providers', 'audit', 'workspaces/acme', 'workspaces/scripted'],
].map((view) => `/console/${view}`)

let scripted: ScriptedWorkspace
let browser: Browser

t.before(async () => {
  scripted = await startScriptedWorkspace(t)
  browser = await openBrowser(t)
})

/** What a page did that no text may make it do. */
class Watch {
  readonly seen: string[] = []

  constructor(context: BrowserContext, origin: string) {
    context.on('request', (request) => {
      const url = request.url()
      if (!url.startsWith(`${origin}/`) && !/^(data|blob):/.test(url)) this.seen.push(`asked for ${url}`)
    })
    context.on('page', (page) => this.#follow(page))
  }

  #follow(page: Page): void {
    page.on('dialog', (dialog) => {
      if (dialog.type() !== 'beforeunload' && !dialog.message().startsWith('Leave without'))
        this.seen.push(`dialog: ${dialog.message()}`)
      void dialog.accept().catch(() => {})
    })
    page.on('console', (message) => {
      if (/Content Security Policy|violates/i.test(message.text()))
        this.seen.push(`console: ${message.text()}`)
    })
    page.on('pageerror', (error) => this.seen.push(`error: ${error.message}`))
  }
}

/** Elements and attributes that the page itself never makes. */
const FOREIGN = `(() => {
  const found = []
  if (window.__pwned !== undefined) found.push('ran: ' + window.__pwned)
  for (const violation of window.__violations ?? []) found.push(violation)
  const own = location.origin + '/console/assets/'
  const scripts = [...document.scripts].filter((one) => one.type !== 'importmap' && !one.src.startsWith(own))
  const unknown = [
    'iframe, object, embed, base, form[action], img, body style, body script, meta[http-equiv], b[onclick]',
    '[style*="inset:0"], a[href^="//"], [srcdoc]',
  ]
  const foreign = document.querySelectorAll(unknown.join())
  for (const element of [...scripts, ...foreign]) found.push(element.outerHTML.slice(0, 200))
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      if (name.startsWith('on')) found.push(element.tagName + ' ' + name + '=' + value)
      if (!/^(href|src|action|formaction|data|xlink:href|poster)$/.test(name)) continue
      if (!element.closest('head') && /^\\s*(javascript|data|vbscript):/i.test(value)) found.push(name + '=' + value)
      const isElsewhere = new URL(value, location.href).origin !== location.origin && !value.startsWith('blob:')
      if (element.tagName === 'A' && isElsewhere) found.push('a link to ' + value)
    }
  }
  return found
})()`

const BEFORE = `
window.__violations = []
addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  window.__violations.push('policy: ' + violatedDirective + ' ' + blockedURI)
})
`

async function openContext(key: string): Promise<{ page: Page; watch: Watch; context: BrowserContext }> {
  const { url } = scripted.node
  const context = await browser.newContext()
  const watch = new Watch(context, url)
  await context.addInitScript(BEFORE)
  const page = await context.newPage()
  page.setDefaultTimeout(10_000)
  await page.goto(`${url}/console`)
  await page.locator('.sign-in input').fill(key)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/console\/\w+\/overview/)
  return { page, watch, context }
}

/** Loads an address anew and waits until the view is drawn. */
async function show(page: Page, path: string): Promise<void> {
  await page.goto(scripted.node.url + path)
  await page.locator('main h1').first().waitFor()
  await page
    .locator('[aria-busy=true], .skeleton')
    .first()
    .waitFor({ state: 'detached', timeout: 4_000 })
    .catch(() => {})
}

/** Presses buttons and opens what is folded, one after the other, and closes what they have opened. */
async function press(page: Page, path: string): Promise<number> {
  const buttons = page.locator(
    'main button:visible:not([disabled]), main summary:visible, [role=tab]:visible',
  )
  const count = Math.min(await buttons.count(), PRESSES)
  for (let index = 0; index < count; index++) {
    const button = buttons.nth(index)
    const name = await button.textContent({ timeout: 500 }).catch(() => 'sign out')
    const label = (await button.getAttribute('aria-label', { timeout: 500 }).catch(() => null)) ?? ''
    if (LEFT_ALONE.test(`${name} ${label}`)) continue
    await button.click({ timeout: 800 }).catch(() => {})
    await page.waitForTimeout(40)
    await page.keyboard.press('Escape')
    if (new URL(page.url()).pathname !== new URL(path, page.url()).pathname) await show(page, path)
  }
  return count
}

t.test('what was planted is there to be drawn', async (t) => {
  const admin = await scripted.node.signIn(scripted.keys.admin)
  const paths = [
    ...['', '/routes', '/routes/acme.draft', '/providers', '/keys', '/webhook', '/webhook/deliveries'],
    '/jobs',
  ]
  for (const path of [...paths, '/requests?limit=200', '/routes/acme.served/versions'])
    t.match((await admin.get(`/workspaces/acme${path}`)).text, /onerror=/, path)
  t.match((await admin.get('/audit')).text, /onerror=/, 'audit')
  t.match((await admin.get('/overview')).text, /onerror=/, 'overview')
  const { text } = await admin.post('/workspaces/acme/providers/acme.own/check')
  t.match(text, /onerror=/, 'models of a provider')
  t.ok(scripted.refused.length >= PAYLOADS.length * 5, `${scripted.refused.length} were refused`)
})

for (const role of ['operator', 'admin'] as const)
  t.test(`${role}: texts that are scripts stay texts in every view`, async (t) => {
    const { page, watch, context } = await openContext(scripted.keys[role])
    const paths = [
      ...WORKSPACE_VIEWS,
      ...scripted.pages
        .filter((_, index) => LONG || (role === 'operator' && index < 8))
        .map((path) => `/console/acme${path}`),
      ...(role === 'operator' ? PLATFORM_VIEWS : []),
    ]
    let presses = 0
    let shown = 0
    for (const path of paths) {
      await show(page, path)
      t.same(await page.evaluate(FOREIGN), [], path)
      presses += await press(page, path)
      t.same(await page.evaluate(FOREIGN), [], `${path}, buttons pressed`)
      const fields =
        '[...document.querySelectorAll("input, textarea, option")].map((one) => one.value).join()'
      const text = `${await page.locator('body').textContent()} ${await page.evaluate(fields)}`
      if (PAYLOADS.some((payload) => text.includes(payload))) shown += 1
    }
    t.comment(`${paths.length} views, ${presses} buttons, a payload is to be read in ${shown}`)
    t.ok(shown > paths.length / 2, `payloads are shown, as texts, in ${shown} of ${paths.length} views`)
    t.same(watch.seen, [])
    await context.close()
  })

t.test('addresses that are scripts stay texts', async (t) => {
  const { page, watch, context } = await openContext(scripted.keys.operator)
  const parts = [
    ...PAYLOADS.map(encodeURIComponent),
    '%00',
    '..%2f..%2f..',
    '%252e%252e',
    '%2f%2fevil.example',
  ]
  const paths = parts.flatMap((part) => [
    `/console/${part}/overview`,
    `/console/acme/${part}`,
    `/console/acme/routes/${part}`,
    `/console/acme/requests/${part}`,
    `/console/acme/jobs/${part}`,
    `/console/workspaces/${part}`,
    `/console/acme/requests?app=${part}&key_id=${part}&path=${part}&outcome=${part}&before=${part}#${part}`,
    `/console/acme/audit?workspace=${part}&below=${part}#${part}`,
    `/console/acme/jobs?kind=${part}&status=${part}`,
    `/console?${part}=${part}#${part}`,
  ])
  const other = [
    '/console//evil.example/',
    '/console/\\evil.example',
    '/console/acme//evil.example',
    '/console/api-docs',
  ]
  const wanted = LONG ? paths : paths.filter((_, index) => index % 11 === 0)
  for (const path of [...wanted, ...other]) {
    const [answer] = await Promise.all([page.goto(scripted.node.url + path)])
    t.match(answer?.headers()['content-type'], /^text\/html/, path)
    await page.locator('main').first().waitFor()
    await page.waitForTimeout(30)
    t.same(await page.evaluate(FOREIGN), [], path)
    t.equal(new URL(page.url()).origin, scripted.node.url, 'the page stays where it is')
  }
  t.comment(`${wanted.length + other.length} addresses`)
  t.same(watch.seen, [])
  await context.close()
})

t.test('a file whose name is a script, and a transcript of scripts', async (t) => {
  const { page, watch, context } = await openContext(scripted.keys.admin)
  for (const payload of PAYLOADS.slice(0, LONG ? PAYLOADS.length : 2)) {
    await show(page, '/console/acme/playground')
    const name = `${payload.replaceAll('/', '\u2215')}.wav`
    await page
      .locator('input[type=file]')
      .first()
      .setInputFiles({ name, mimeType: 'audio/wav', buffer: filledWav(32_044) })
    await page.getByText(name, { exact: true }).first().waitFor()
    t.same(await page.evaluate(FOREIGN), [], payload)
    await page.getByRole('button', { name: /^transcribe/i }).click()
    await page.getByText(PAYLOADS[0]!, { exact: false }).first().waitFor()
    await page.waitForTimeout(200)
    t.same(await page.evaluate(FOREIGN), [], `${payload}, transcribed`)
  }
  t.same(watch.seen, [])
  await context.close()
})

/** Ways to run a script or to reach another host from a page that somebody has got something into. */
const TRIES = `(async () => {
  const add = (tag, fields, parent = document.body) => {
    const element = document.createElement(tag)
    for (const [name, value] of Object.entries(fields)) element.setAttribute(name, value)
    parent.append(element)
    return element
  }
  add('script', {}).append('window.__pwned = "inline"')
  const late = document.createElement('script')
  late.textContent = 'window.__pwned = "late"'
  document.body.append(late)
  add('div', { onclick: 'window.__pwned = "handler"' }).click()
  add('img', { src: 'x', onerror: 'window.__pwned = "onerror"' })
  add('a', { href: 'javascript:window.__pwned="link"' }).click()
  add('script', { src: 'https://evil.example/x.js' })
  add('script', { src: 'data:text/javascript,window.__pwned="data"' })
  add('script', { src: URL.createObjectURL(new Blob(['window.__pwned="blob"'], { type: 'text/javascript' })) })
  add('script', { type: 'module', src: 'data:text/javascript,window.__pwned="module"' })
  add('script', { type: 'importmap' }).append('{"imports":{"preact":"data:text/javascript,window.__pwned=1"}}')
  add('img', { src: 'https://evil.example/x.png' })
  add('link', { rel: 'stylesheet', href: 'https://evil.example/x.css' }, document.head)
  add('style', {}).append('body { --pwned: 1 }')
  add('div', { id: 'styled', style: '--pwned: 1' })
  add('iframe', { src: 'https://evil.example/' })
  add('iframe', { srcdoc: '<script>parent.__pwned="srcdoc"</' + 'script>' })
  add('object', { data: 'data:text/html,<script>parent.__pwned=1</' + 'script>' })
  add('base', { href: 'https://evil.example/' }, document.head)
  const form = add('form', { action: '/console/api/session', method: 'post', target: '_blank' })
  form.submit()
  const failed = {}
  const note = async (name, make) => {
    try { await make(); failed[name] = false } catch { failed[name] = true }
  }
  await note('fetch', () => fetch('https://evil.example/'))
  await note('import', () => import('data:text/javascript,window.__pwned="import"'))
  await note('worker', () => new Promise((resolve, reject) => {
    const worker = new Worker(URL.createObjectURL(new Blob(['postMessage(1)'])))
    worker.onmessage = resolve
    worker.onerror = reject
  }))
  await note('socket', () => new Promise((resolve, reject) => {
    const socket = new WebSocket('wss://evil.example/')
    socket.onopen = resolve
    socket.onerror = reject
  }))
  await new Promise((resolve) => setTimeout(() => {
    try { eval('window.__pwned = "eval"') } catch { failed.eval = true }
    try { new Function('window.__pwned = "function"')() } catch { failed.function = true }
    try { setTimeout('window.__pwned = "timer"', 0) } catch {}
    resolve()
  }, 0))
  await new Promise((resolve) => setTimeout(resolve, 300))
  return {
    pwned: window.__pwned ?? null,
    failed,
    base: document.baseURI.startsWith(location.origin),
    styled: [document.body, document.getElementById('styled')]
      .map((element) => getComputedStyle(element).getPropertyValue('--pwned')).join(''),
    directives: [...new Set(window.__violations.map((one) => one.split(' ')[1]))].sort(),
  }
})()`

t.test('the policy stops a script that would get in all the same', async (t) => {
  const { page, context } = await openContext(scripted.keys.operator)
  const asked: string[] = []
  context.on('requestfinished', (request) => asked.push(request.url()))
  await show(page, '/console/acme/keys')
  const found = (await page.evaluate(TRIES)) as Readonly<Record<string, unknown>>
  t.equal(found.pwned, null, 'nothing ran')
  t.same(found.failed, { fetch: true, import: true, worker: true, socket: true, eval: true, function: true })
  t.equal(found.base, true, 'addresses stay those of the page')
  t.equal(found.styled, '', 'no style either')
  for (const directive of [
    ...['script-src-elem', 'script-src-attr', 'img-src', 'style-src-elem', 'connect-src', 'frame-src'],
    ...['base-uri', 'form-action'],
  ])
    t.ok((found.directives as readonly string[]).includes(directive), directive)
  t.same(
    asked.filter((url) => /^https?:/.test(url) && !url.startsWith(`${scripted.node.url}/`)),
    [],
  )
  await context.close()
})
