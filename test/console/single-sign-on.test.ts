import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import t from 'tap'
import type { ConsoleNode } from '../support/console-node.ts'
import { CLIENT, type TestIssuer, Wanderer } from './oidc-issuer.ts'
import {
  arrivalOf,
  assertUnlogged,
  CALLBACK,
  configure,
  consoleFields,
  START,
  signInAs,
  startSignOn,
  visitFrom,
} from './single-sign-on.ts'

let node: ConsoleNode
let issuer: TestIssuer

t.before(async () => {
  ;({ node, issuer } = await startSignOn(t))
})

t.test('a person of a group signs in, and is named in the audit list', async (t) => {
  t.same((await node.ask('/sign-in')).body, {
    keys: true,
    oidc: { name: 'Test ID', url: `${node.url}${START}` },
  })
  const browser = new Wanderer()
  const sent = await browser.visit(`${node.url}${START}`, {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
  })
  t.equal(sent.status, 303)
  t.match(
    sent.headers.get('set-cookie'),
    /^lk_console_oidc_[\w-]{8}=sealed1\.[\w.-]+; Path=\/console\/api\/sign-in\/oidc; HttpOnly; .*=Lax; Max-Age=600$/,
  )
  const { origin, searchParams } = new URL(sent.headers.get('location') ?? '')
  t.equal(origin, issuer.url)
  t.match(Object.fromEntries(searchParams), {
    client_id: CLIENT.id,
    response_type: 'code',
    scope: 'openid profile email groups',
    redirect_uri: `${node.url}${CALLBACK}`,
    code_challenge_method: 'S256',
    code_challenge: /^[\w-]{43}$/,
    state: /^[\w-]{43}$/,
    nonce: /^[\w-]{43}$/,
  })

  issuer.person = 'ada'
  const callback = await browser.follow(searchParams.size > 0 ? sent.headers.get('location')! : '', CALLBACK)
  const entered = await browser.visit(callback)
  t.match(
    [entered.status, entered.headers.get('location'), entered.headers.get('cache-control')],
    [303, '/console', 'no-store'],
  )
  t.match(entered.headers.getSetCookie(), [
    /^lk_console=[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    /^lk_console_oidc_[\w-]{8}=; Path=\/console\/api\/sign-in\/oidc; HttpOnly; SameSite=Lax; Max-Age=0$/,
  ])
  const ada = arrivalOf(node.url, browser, `${node.url}/console`)
  t.match(await ada.ask('/session'), {
    status: 200,
    body: {
      role: 'operator',
      workspaces: [],
      key: null,
      person: { name: 'ada@example.com', subject: 'ada' },
    },
  })
  t.equal((await ada.ask('/workspaces/other')).status, 200)
  t.equal((await ada.ask('/workspaces/acme/content', 'PUT')).status, 400, 'changes need a body')
  t.equal((await ada.ask('/sessions')).status, 200)
  const { lines } = (await ada.ask('/audit')).body as { lines: { action: string; by: object }[] }
  t.match(lines[0], {
    action: 'session.begin',
    by: { via: 'console', key_id: null, name: 'ada@example.com', subject: 'ada' },
    detail: 'as operator of all workspaces',
  })
})

t.test('the highest role wins; an admin of two workspaces sees these two alone', async (t) => {
  const ben = await signInAs(node, issuer, 'ben', { query: '?return_to=/console/other/keys%3Fa=1' })
  t.equal(ben.at, '/console/other/keys?a=1')
  const eve = await signInAs(node, issuer, 'eve', { query: '?return_to=//evil.example/console' })
  t.equal(eve.at, '/console?sign_in=no_role', 'without a role there is no way in, and none to elsewhere')
  t.match((await ben.ask('/session')).body, {
    role: 'admin',
    workspace: 'acme',
    workspaces: ['acme', 'other'],
    person: { name: 'ben@example.com', subject: 'ben' },
  })
  const { workspaces } = (await ben.ask('/workspaces')).body as { workspaces: { id: string }[] }
  t.same(workspaces.map(({ id }) => id).sort(), ['acme', 'other'])
  for (const [path, status] of [
    ['/workspaces/acme', 200],
    ['/workspaces/other', 200],
    ['/workspaces/other/keys', 200],
    ['/overview?workspace=other', 200],
    ['/audit?workspace=acme', 200],
    ['/workspaces/ops', 404],
    ['/workspaces/not-there-yet', 404],
    ['/overview?workspace=ops', 404],
    ['/audit', 400],
  ] as const)
    t.equal((await ben.ask(path)).status, status, path)
  t.equal((await ben.ask('/workspaces/other', 'DELETE')).status, 403, 'no operator')
  t.equal((await ben.ask('/workspaces/other/keys/key_x', 'DELETE')).status, 404, 'it may, but there is none')

  const { sessions } = (await ben.ask('/sessions')).body as { sessions: { own: boolean }[] }
  t.same([sessions.length, sessions[0]?.own], [1, true], 'and their own session')
})

t.test('a callback counts once, and only in the browser that asked for it', async (t) => {
  issuer.person = 'ada'
  const browser = new Wanderer()
  const callback = await browser.follow(`${node.url}${START}`, CALLBACK)
  const [own = ''] = browser.names(node.url)
  const flowOfBrowser = browser.cookie(node.url, own) ?? ''
  const stranger = new Wanderer()
  const refused = async (wanderer: Wanderer, url: string, fault: string, what: string) => {
    // As a browser would that kept the flow, which the answer before has taken away.
    if (wanderer === browser) wanderer.take(node.url, own, flowOfBrowser)
    const { status, headers } = await visitFrom(wanderer, url, '192.0.2.1')
    t.same([status, headers.get('location')], [303, `/console?sign_in=${fault}`], what)
    t.notOk(/^lk_console=/.test(headers.get('set-cookie') ?? ''), `${what}: no session`)
    const hasOwnState = url.includes(String(new URL(callback).searchParams.get('state')))
    t.equal(wanderer.names(node.url).includes(own), wanderer === browser && !hasOwnState, `${what}: the flow`)
  }
  await refused(stranger, callback, 'expired', 'in another browser')
  await stranger.follow(`${node.url}${START}`, '/auth')
  await refused(stranger, callback, 'expired', 'in one that asked for another sign-in')
  const [flow = ''] = stranger.names(node.url)
  stranger.take(node.url, own, stranger.cookie(node.url, flow) ?? '')
  await refused(stranger, callback, 'expired', 'with the flow of another state under its name')
  const changed = (name: string, value: string) => {
    const url = new URL(callback)
    url.searchParams.set(name, value)
    return url.href
  }
  await refused(browser, changed('state', 'x'.repeat(43)), 'expired', 'with another state')
  await refused(browser, changed('iss', 'https://other.example'), 'refused', 'of another issuer')
  await refused(browser, changed('code', 'made-up'), 'refused', 'with a code that is made up')
  await refused(browser, `${callback}&code=second`, 'refused', 'with two codes')
  await refused(browser, `${callback}&x=${'y'.repeat(9_000)}`, 'refused', 'with a long query')
  const without = new URL(callback)
  without.searchParams.delete('code')
  await refused(browser, `${without.href}&error=access_denied`, 'denied', 'that the issuer refused')
  await refused(browser, `${without.href}&error=%3Cscript%3E`, 'refused', 'with an error of its own')

  browser.take(node.url, own, flowOfBrowser)
  t.equal((await browser.visit(callback)).headers.get('location'), '/console')
  await refused(browser, callback, 'refused', 'again')
  const copied = new Wanderer()
  copied.take(node.url, own, flowOfBrowser)
  await refused(copied, callback, 'refused', 'again, elsewhere, with the cookie')
  assertUnlogged(t, node, [
    ...issuer.secrets,
    new URL(callback).searchParams.get('code') ?? '',
    CLIENT.secret,
  ])
})

t.test('failed codes lock out their own address, and no other that comes through the proxy', async (t) => {
  const browser = new Wanderer()
  const callback = await browser.follow(`${node.url}${START}`, CALLBACK)
  const [name = ''] = browser.names(node.url)
  const cookie = `${name}=${browser.cookie(node.url, name)}`
  const failed = new URL(callback)
  failed.searchParams.delete('code')
  failed.searchParams.set('error', 'access_denied')
  const visit = async (address: string) => {
    const headers = { cookie, 'x-forwarded-for': address }
    const { headers: told } = await fetch(failed, { headers, redirect: 'manual' })
    return told.get('location')
  }
  for (let round = 0; round < 10; round += 1)
    t.equal(await visit('192.0.2.77'), '/console?sign_in=denied', `try ${round + 1}`)
  t.equal(await visit('192.0.2.77'), '/console?sign_in=too_many')
  for (let round = 0; round < 100; round += 1) await visit(`198.18.0.${round}`)
  for (let round = 0; round < 12; round += 1) {
    const body = new URLSearchParams({ logout_token: 'x.y.z' })
    const headers = { 'x-forwarded-for': '198.18.1.1' }
    await fetch(`${node.url}${START}/logout`, { method: 'POST', body, headers })
  }
  const { headers } = await visitFrom(browser, callback, '198.18.1.1')
  t.equal(headers.get('location'), '/console')
})

t.test('keys of the issuer may change at any time, and metadata is asked for once', async (t) => {
  const before = issuer.asked.filter((path) => path.includes('.well-known')).length
  for (let round = 0; round < 3; round += 1) {
    issuer.rotate()
    t.equal((await signInAs(node, issuer, 'ada')).at, '/console', `after ${round + 1} changes`)
  }
  t.equal(issuer.asked.filter((path) => path.includes('.well-known')).length, before)
  t.teardown(() => {
    issuer.tampering = null
  })
  issuer.tampering = { by: 'foreign' }
  const refused = await signInAs(node, issuer, 'ada')
  t.equal(refused.at, '/console?sign_in=refused', 'but not for those of another')
})

t.test('a browser carries few sign-ins along, and none that is over', async (t) => {
  const browser = new Wanderer()
  const query = `?${new URLSearchParams({ return_to: `/console/${'x'.repeat(247)}` })}`
  const begun: string[] = []
  for (let round = 0; round < 7; round += 1) {
    await (await browser.visit(`${node.url}${START}${query}`)).body?.cancel()
    begun.push(browser.names(node.url).at(-1) ?? '')
  }
  t.equal(new Set(begun).size, 7)
  t.same(browser.names(node.url), begun.slice(-4), 'the newest four')
  const bytes = begun
    .slice(-4)
    .map((name) => `${name}=${browser.cookie(node.url, name)}; `)
    .join('').length
  t.ok(bytes < 5_000, `${bytes} bytes of cookies`)

  const { at } = await signInAs(node, issuer, 'ada', { query, browser })
  t.match(at, /^\/console\/x+$/)
  t.same(browser.names(node.url), [...begun.slice(-3), 'lk_console'])
})

t.test('signing out ends the session here, and says where to end it at the issuer', async (t) => {
  const ada = await signInAs(node, issuer, 'ada')
  await ada.ask('/session')
  const out = await ada.ask('/session', 'DELETE')
  t.equal(out.status, 200)
  const url = new URL(String(out.body.logout_url))
  t.equal(url.origin, issuer.url)
  t.match(Object.fromEntries(url.searchParams), {
    client_id: CLIENT.id,
    post_logout_redirect_uri: `${node.url}/console`,
    id_token_hint: issuer.secrets.at(-1),
  })
  t.equal((await ada.ask('/session')).status, 401)
  t.equal((await ada.browser.visit(url.href)).status, 200, 'the issuer takes it')

  const key = await node.signIn(node.keys.admin)
  t.same((await key.delete('/session')).body, { ended: true }, 'keys have no such place')
  await configure(
    node,
    consoleFields(node.url, issuer, {}, { issuer_logout: false, name: 'Local' }),
    ({ oidc }) => JSON.stringify(oidc).includes('Local'),
  )
  const local = await signInAs(node, issuer, 'ada')
  await local.ask('/session')
  t.same((await local.ask('/session', 'DELETE')).body, { ended: true })
})

t.test('operators see and end all sessions, others their own', async (t) => {
  type Listed = {
    sessions: {
      id: string
      current: boolean
      own: boolean
      address: string
      person: { name: string } | null
    }[]
  }
  const [ada, ben, twice] = [
    await signInAs(node, issuer, 'ada'),
    await signInAs(node, issuer, 'ben'),
    await signInAs(node, issuer, 'ben'),
  ]
  for (const one of [ada, ben, twice]) await one.ask('/session')
  const own = ((await ben.ask('/sessions')).body as Listed).sessions
  t.ok(own.length >= 2 && own.every((one) => one.own && one.person?.name === 'ben@example.com'))
  t.equal(own.filter(({ current }) => current).length, 1)
  t.ok(own.every(({ address }) => isIP(address) > 0))
  const all = ((await ada.ask('/sessions')).body as Listed).sessions
  t.ok(all.some(({ person }) => person === null) || all.length > own.length)
  const hers = all.find(({ current }) => current)!
  t.equal((await ben.ask(`/sessions/${hers.id}`, 'DELETE')).status, 404)
  t.equal((await ben.ask('/sessions/unknown', 'DELETE')).status, 404)
  t.equal((await ada.ask('/session')).status, 200)
  const current = own.find((one) => one.current)!
  t.equal((await twice.ask(`/sessions/${current.id}`, 'DELETE')).status, 200, 'their own from elsewhere')
  t.equal((await ben.ask('/session')).status, 401)
  const other = ((await ada.ask('/sessions')).body as Listed).sessions.find(
    (one) => one.person?.name === 'ben@example.com',
  )!
  t.equal((await ada.ask(`/sessions/${other.id}`, 'DELETE')).status, 200)
  const { lines } = (await ada.ask('/audit')).body as { lines: object[] }
  t.match(lines[0], {
    action: 'session.revoke',
    by: { name: 'ada@example.com' },
    detail: 'of ben@example.com',
  })
})

t.test('the audit list has of sessions what the manual says', async (t) => {
  const key = await node.signIn(node.keys.admin)
  await key.delete('/session')
  const [ada, ben] = [await signInAs(node, issuer, 'ada'), await signInAs(node, issuer, 'ben')]
  await ben.ask('/session')
  t.equal((await ben.ask('/session', 'DELETE')).status, 200)
  const again = await signInAs(node, issuer, 'ben')
  const body = new URLSearchParams({ logout_token: issuer.logoutToken({ sub: 'ben' }) })
  t.equal((await fetch(`${node.url}${START}/logout`, { method: 'POST', body })).status, 200)
  t.equal((await again.ask('/session')).status, 401)
  const { lines } = (await ada.ask('/audit')).body as { lines: { action: string }[] }
  const actions = lines.map(({ action }) => action).filter((action) => action.startsWith('session.'))
  t.same(actions.slice(0, 3), ['session.begin', 'session.begin', 'session.begin'], 'nothing of the others')
  const manual = await readFile(new URL('../../docs/single-sign-on.md', import.meta.url), 'utf8')
  const said = [...manual.matchAll(/`(session\.\w+)`/g)].map(([, action]) => action)
  t.same(said, [...new Set(actions)].sort())
})

t.test('a session ends with the role, and key sign-in can be turned off', async (t) => {
  const [ada, ben] = [await signInAs(node, issuer, 'ada'), await signInAs(node, issuer, 'ben')]
  const key = await node.signIn(node.keys.operator)
  const roles = [
    { group: 'gateway-operators', role: 'operator' },
    { group: 'watchers', role: 'admin', workspaces: ['acme'] },
  ]
  await configure(
    node,
    consoleFields(node.url, issuer, { key_sign_in: false, session_seconds: 60 }, { roles }),
    ({ keys }) => keys === false,
  )
  t.match((await ben.ask('/session')).body, { workspaces: ['acme'] }, 'a role that is less is less at once')
  t.equal((await key.get('/session')).status, 401, 'sessions of keys are over')
  t.match(await node.ask('/session', { method: 'POST', body: { key: node.keys.operator } }), {
    status: 403,
    body: { error: { code: 'PERMISSION_DENIED', message: /use single sign-on/ } },
  })
  const { headers } = await (await signInAs(node, issuer, 'ada')).browser.visit(
    `${node.url}/console/api/session`,
  )
  t.ok(headers)
  const short = await signInAs(node, issuer, 'ada')
  const left = Date.parse(String((await short.ask('/session')).body.expires_at)) - Date.now()
  t.ok(left > 30_000 && left <= 60_500, `it lasts ${left} ms`)

  await configure(
    node,
    consoleFields(node.url, issuer, {}, { client_id: 'another' }),
    ({ keys }) => keys === true,
  )
  t.equal((await ada.ask('/session')).status, 401, 'another client is another issuer of roles')
  const lost = await signInAs(node, issuer, 'ada')
  t.not(lost.at, '/console')
  await configure(node, {}, ({ oidc }) => oidc === null)
  for (const path of [START, CALLBACK])
    t.equal(
      (await new Wanderer().visit(`${node.url}${path}`)).headers.get('location'),
      '/console?sign_in=off',
    )
})
