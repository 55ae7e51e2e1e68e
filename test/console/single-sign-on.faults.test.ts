import t from 'tap'
import type { ConsoleNode } from '../support/console-node.ts'
import { CLIENT, type Tampering, type TestIssuer, Wanderer } from './oidc-issuer.ts'
import {
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

t.test('no one gets in without a role, whatever the claims are', async (t) => {
  const rows: [string, string][] = [
    ['eve', 'no_role'],
    ['false', 'no_role'],
    ['says-true', 'no_role'],
    ['number', 'no_role'],
    ['object', 'no_role'],
    ['nested', 'no_role'],
    ['keycloak', 'no_role'],
    ['grace', ''],
    ['text', ''],
    ['mixed', ''],
  ]
  for (const [person, fault] of rows) {
    const arrived = await signInAs(node, issuer, person)
    t.equal(arrived.at, fault === '' ? '/console' : `/console?sign_in=${fault}`, person)
    t.equal((await arrived.ask('/session')).status, fault === '' ? 200 : 401, person)
  }
  const mixed = (await (await signInAs(node, issuer, 'mixed')).ask('/session')).body
  t.match(mixed, { person: { name: /^abc{198}$/ } }, 'a name without control characters, and not too long')

  const claim = (groups_claim: string) =>
    configure(node, consoleFields(node.url, issuer, {}, { groups_claim, name: groups_claim }), ({ oidc }) =>
      JSON.stringify(oidc).includes(groups_claim),
    )
  await claim('realm_access.roles')
  t.match((await (await signInAs(node, issuer, 'keycloak')).ask('/session')).body, { workspaces: ['acme'] })
  await claim('https://example.com/groups')
  t.match((await (await signInAs(node, issuer, 'keycloak')).ask('/session')).body, {
    workspaces: ['acme', 'other'],
  })
  await configure(node, consoleFields(node.url, issuer), ({ oidc }) =>
    JSON.stringify(oidc).includes('Test ID'),
  )
})

t.test('an ID token has to be right in every respect', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const rows: [string, Tampering, boolean][] = [
    ['signed anew by the issuer', {}, true],
    ['with another nonce', { claims: { nonce: 'x'.repeat(43) } }, false],
    ['without a nonce', { claims: { nonce: undefined } }, false],
    ['of another issuer', { claims: { iss: 'https://other.example' } }, false],
    ['for another client', { claims: { aud: 'other' } }, false],
    ['for two clients, and not by us', { claims: { aud: [CLIENT.id, 'other'], azp: 'other' } }, false],
    ['that has expired', { claims: { exp: now - 60 } }, false],
    ['that has expired by the clock of the issuer', { claims: { exp: now - 5 } }, true],
    ['of tomorrow', { claims: { nbf: now + 86_400 } }, false],
    ['without a subject', { claims: { sub: undefined } }, false],
    ['of a subject that is no text', { claims: { sub: 7 } }, false],
    ['that is not signed', { by: 'none' }, false],
    ['signed with the secret of the client', { by: 'HS256' }, false],
    ['signed with a key of the same name', { by: 'foreign' }, false],
    ['that is very long', { claims: { x: 'y'.repeat(300_000) } }, false],
    ['that is long', { claims: { x: 'y'.repeat(30_000) } }, true],
  ]
  t.teardown(() => {
    issuer.tampering = null
  })
  issuer.person = 'ada'
  for (const [index, [what, tampering, isTaken]] of rows.entries()) {
    issuer.tampering = tampering
    const browser = new Wanderer()
    const callback = await browser.follow(`${node.url}${START}`, CALLBACK)
    const { headers } = await visitFrom(browser, callback, `198.51.100.${index}`)
    t.equal(headers.get('location'), isTaken ? '/console' : '/console?sign_in=refused', what)
    t.equal(browser.names(node.url).includes('lk_console'), isTaken, what)
  }
  assertUnlogged(t, node, issuer.secrets)
})

t.test('it leads to paths of the console alone', async (t) => {
  const rows: [string, string][] = [
    ['/console/acme/routes?x=1#y', '/console/acme/routes?x=1#y'],
    ['/console', '/console'],
    ['https://evil.example/console', '/console'],
    ['//evil.example/console', '/console'],
    ['/\\evil.example', '/console'],
    ['/console/../v1/models', '/console'],
    ['/console/%2e%2e/docs', '/console'],
    ['/console@evil.example', '/console'],
    ['/consolex', '/console'],
    ['/console/\\evil', '/console'],
    ['/console/\nset-cookie: x=1', '/console'],
    ['/console/api/sign-in/oidc', '/console'],
    ['javascript:alert(1)', '/console'],
    [`/console/${'x'.repeat(247)}`, `/console/${'x'.repeat(247)}`],
    [`/console/${'x'.repeat(248)}`, '/console'],
    [`/console/${'"'.repeat(100)}`, '/console'],
    ['', '/console'],
  ]
  for (const [asked, leads] of rows) {
    const query = `?${new URLSearchParams({ return_to: asked })}`
    t.equal((await signInAs(node, issuer, 'ada', { query })).at, leads, JSON.stringify(asked.slice(0, 40)))
  }
})

t.test('the issuer ends sessions, by orders that only it can give', async (t) => {
  const order = async (token: string, address: string) => {
    const body = new URLSearchParams({ logout_token: token })
    const headers = { 'x-forwarded-for': address }
    return (await fetch(`${node.url}${START}/logout`, { method: 'POST', body, headers })).status
  }
  const [ada, ben] = [await signInAs(node, issuer, 'ada'), await signInAs(node, issuer, 'ben')]
  const isThere = async () => (await ada.ask('/session')).status === 200
  const now = Math.floor(Date.now() / 1000)
  const rows: [string, string][] = [
    ['of another issuer', issuer.logoutToken({ sub: 'ada', iss: 'https://other.example' })],
    ['for another client', issuer.logoutToken({ sub: 'ada', aud: ['other'] })],
    ['without a subject', issuer.logoutToken({})],
    ['without an event', issuer.logoutToken({ sub: 'ada', events: { other: {} } })],
    ['with the nonce of an ID token', issuer.logoutToken({ sub: 'ada', nonce: 'n' })],
    ['of an hour ago', issuer.logoutToken({ sub: 'ada', iat: now - 3_600 })],
    ['that has expired', issuer.logoutToken({ sub: 'ada', exp: now - 60 })],
    ['of tomorrow', issuer.logoutToken({ sub: 'ada', iat: now + 86_400 })],
    ['without a name', issuer.logoutToken({ sub: 'ada', jti: undefined })],
    ['that is not signed', issuer.logoutToken({ sub: 'ada' }, 'none')],
    ['signed with the secret', issuer.logoutToken({ sub: 'ada' }, 'HS256')],
    ['signed by a stranger', issuer.logoutToken({ sub: 'ada' }, 'foreign')],
    ['an ID token', issuer.secrets.at(-1) ?? ''],
    ['no token', 'x.y.z'],
  ]
  for (const [index, [what, token]] of rows.entries())
    t.equal(await order(token, `203.0.113.${index}`), 400, what)
  t.equal(await isThere(), true)
  const good = issuer.logoutToken({ sub: 'ada' })
  t.equal(await order(good, '192.0.2.9'), 200)
  t.equal(await isThere(), false)
  t.equal((await ben.ask('/session')).status, 200, 'and no one else’s')
  const again = await signInAs(node, issuer, 'ada')
  t.equal(await order(good, '192.0.2.9'), 200)
  t.equal((await again.ask('/session')).status, 200, 'an order counts once')

  // As the issuer sends it itself, when a person signs out there.
  issuer.person = 'ben'
  const { browser } = ben
  const page = await (await browser.visit(`${issuer.url}/session/end`)).text()
  const xsrf = /name="xsrf" value="([^"]+)"/.exec(page)?.[1] ?? ''
  await browser.post(`${issuer.url}/session/end/confirm`, { xsrf, logout: 'yes' })
  t.equal((await ben.ask('/session')).status, 401, 'ended with the session at the issuer')
})
