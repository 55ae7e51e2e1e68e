import t, { type Test } from 'tap'
import type { ConsoleContext } from '../../src/console/server/context.ts'
import { SingleSignOn } from '../../src/console/server/oidc/endpoints.ts'
import { personHolder } from '../../src/console/server/session.ts'
import type { ConsoleSessions, KeptSession } from '../../src/contracts/console.ts'
import { errorReply, toGatewayError } from '../../src/contracts/errors.ts'
import type { OidcSettings } from '../../src/contracts/sign-in.ts'
import { systemClock } from '../../src/contracts/time.ts'
import { consoleSession } from '../support/console-record.ts'
import { FakeExchange } from '../support/fake-exchange.ts'
import { CLIENT, startIssuer, type TestIssuer } from './oidc-issuer.ts'

let issuer: TestIssuer

t.before(async () => {
  issuer = await startIssuer(t)
  issuer.register('http://127.0.0.1:1')
})

/** A node as far as orders of the issuer go, with the sessions of two people. */
function nodeOf(issuer: TestIssuer) {
  const sessionOf = (subject: string): KeptSession => {
    const known = { issuer: issuer.url, clientId: CLIENT.id, subject, name: subject }
    const person = { ...known, groups: [], email: null, issuerSession: null, sealedIdToken: null }
    const session = consoleSession({ id: subject, keySha256: null, person, holder: personHolder(person) })
    return { ...session, beganAtMs: 0, seenAtMs: 0, expiresAtMs: 1e15 }
  }
  const kept = new Map(['ada', 'ben'].map((name) => [name, sessionOf(name)]))
  const marks = new Set<string>()
  const state = { isAway: false, aheadMs: 0 }
  const reach = () => {
    if (state.isAway) throw new Error('the state does not answer')
  }
  const sessions: Partial<ConsoleSessions> = {
    list: async (holder) => {
      reach()
      return [...kept.values()].filter((one) => holder === null || one.holder === holder)
    },
    end: async (id) => {
      reach()
      kept.delete(id)
    },
    isClaimed: async (mark) => marks.has(mark),
    claim: async (mark) => !marks.has(mark) && marks.add(mark).has(mark),
  }
  const oidc = { issuer: issuer.url, clientId: CLIENT.id, publicUrl: 'http://127.0.0.1:1' } as OidcSettings
  const context = {
    catalog: { good: () => ({ signIn: { oidc } }) },
    deps: { log: { info() {}, warn() {} }, secretKeys: [] },
    state: { sessions },
    clock: { ...systemClock, wallNow: () => Date.now() + state.aheadMs },
  }
  const singleSignOn = new SingleSignOn(context as unknown as ConsoleContext)
  /** @returns the status of the answer */
  const order = async (token: string, address = '192.0.2.1'): Promise<number> => {
    const form = new URLSearchParams({ logout_token: token })
    const exchange = new FakeExchange({
      headers: { 'x-forwarded-for': address },
      chunks: [Buffer.from(String(form))],
    })
    return singleSignOn.obey(exchange).then(
      ({ status }) => status,
      (error) => errorReply(toGatewayError(error), 'req').status,
    )
  }
  return { order, state, kept, begin: (name: string) => kept.set(name, sessionOf(name)) }
}

t.test('an order that failed half way counts when the issuer sends it again', async (t: Test) => {
  const { order, state, kept, begin } = nodeOf(issuer)
  const token = issuer.logoutToken({ sub: 'ada' })
  state.isAway = true
  t.equal(await order(token), 500)
  state.isAway = false
  t.ok(kept.has('ada'))
  t.equal(await order(token), 200)
  t.same([...kept.keys()], ['ben'])

  begin('ada')
  t.equal(await order(token), 200)
  t.same([...kept.keys()], ['ben', 'ada'], 'once it is carried out it ends no later session')
})

t.test('refused tokens of strangers suppress no order of the issuer', async (t: Test) => {
  const { order, kept } = nodeOf(issuer)
  const foreign = issuer.logoutToken({ sub: 'ada' }, 'foreign')
  const statuses = new Set<number>()
  for (let round = 0; round < 15; round += 1) statuses.add(await order(foreign, '192.0.2.7'))
  t.same([...statuses], [400, 429], 'they are throttled themselves')
  for (let round = 0; round < 120; round += 1) await order('x.y.z', `198.51.100.${round}`)
  t.equal(await order('x.y.z', '203.0.113.1'), 429, 'and all together')
  t.ok(kept.has('ada'))
  t.equal(await order(issuer.logoutToken({ sub: 'ada' }), '192.0.2.7'), 200)
  t.same([...kept.keys()], ['ben'])
})

t.test('an order counts that is signed with a key of the last seconds', async (t: Test) => {
  const { order, kept, state } = nodeOf(issuer)
  t.equal(await order(issuer.logoutToken({ sub: 'ben' }, 'foreign')), 400)
  issuer.rotate()
  const token = issuer.logoutToken({ sub: 'ada' })
  t.equal(await order(token), 400, 'the keys were just read')
  state.aheadMs = 3_000
  t.equal(await order(token), 200)
  t.same([...kept.keys()], ['ben'])
})

t.test('the issuer is not asked for its keys by a token that does not name it', async (t: Test) => {
  const { order } = nodeOf(issuer)
  const before = issuer.asked.length
  const hmac = issuer.logoutToken({ sub: 'ada' }, 'HS256')
  for (const token of ['x.y.z', hmac, issuer.logoutToken({ sub: 'ada', iss: 'https://other.example' })])
    t.equal(await order(token), 400)
  t.equal(issuer.asked.length, before)
  t.equal(await order(issuer.logoutToken({ sub: 'ada', iss: `${issuer.url}/` })), 400, 'a slash counts')
})
