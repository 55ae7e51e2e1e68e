import t from 'tap'
import type { Entry, Selectors } from '../../../src/contracts/catalog.ts'
import {
  allRequirements,
  brokenPromises,
  type RequireFields,
  type Residency,
  readRequirements,
  requirementsOf,
} from '../../../src/contracts/requirements.ts'
import { createCircuitBreakers, createLatencyTracker } from '../../../src/gateway/call/select/health.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { configuredProvider, entry, facts, principal, route } from '../../support/catalog.ts'
import { chatCall } from '../../support/gateway-rig.ts'

const CASES = 10_000

/** Whole numbers below `below`, always the same row of them. */
function chance() {
  let state = 7
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
const draw = chance()
const oneOf = <Item>(items: readonly Item[]): Item => items[draw(items.length)]!

const REGIONS = ['eu', 'eu-west-1', 'eu-central-1', 'us', 'us-east-1', 'europe', 'ap']
const RETENTIONS = ['zero', { days: 0 }, { days: 1 }, { days: 30 }, { days: 365 }] as const

function someResidency(): Residency {
  return {
    region: oneOf([undefined, ...REGIONS]),
    retention: oneOf([undefined, ...RETENTIONS]),
    training: oneOf([undefined, 'never', 'allowed']),
  }
}

function someRequire(): RequireFields | undefined {
  if (draw(3) === 0) return undefined
  const region = oneOf([undefined, 'eu', 'us', ['eu', 'us'], ['eu-west-1'], ['ap', 'eu-central-1']])
  const retention = oneOf([undefined, undefined, ...RETENTIONS])
  const training = oneOf([undefined, 'never' as const])
  return {
    ...(region === undefined ? {} : { region }),
    ...(retention === undefined ? {} : { retention }),
    ...(training === undefined ? {} : { training }),
  }
}

/** Says in its own way whether an entry may be sent what is demanded. */
function oracle(promised: Residency, demands: readonly (RequireFields | undefined)[]): boolean {
  const days = (one: Residency['retention']) => (one === undefined ? Infinity : one === 'zero' ? 0 : one.days)
  return demands.every((demand) => {
    if (demand === undefined) return true
    const { region, retention, training } = demand
    if (region !== undefined) {
      const parts = promised.region?.split('-') ?? []
      const prefixes = parts.map((_, at) => parts.slice(0, at + 1).join('-'))
      if (![region].flat().some((name) => prefixes.includes(name))) return false
    }
    if (retention !== undefined && days(promised.retention) > days(retention)) return false
    return training === undefined || promised.training === 'never'
  })
}

const demanded = (require: RequireFields | undefined) =>
  require === undefined ? {} : { require: requirementsOf(require) }

t.test(
  `${CASES} calls against an oracle: no entry is tried that does not promise what is demanded`,
  async (t) => {
    const counts = { served: 0, refused: 0, dropped: 0 }
    const wrong: unknown[] = []
    for (let number = 0; number < CASES; number += 1) {
      const promises = Array.from({ length: 1 + draw(4) }, someResidency)
      const entries = promises.map((promise, at): Entry => {
        const provider = configuredProvider({ name: `p${at}` })
        return entry({ provider, facts: facts({ capabilities: ['text'], ...promise }) })
      })
      const [ofWorkspace, ofPurpose, ofCall] = [someRequire(), someRequire(), someRequire()]
      const isNamed = draw(2) === 0
      const enabled = draw(4) > 0
      const assigned = route(entries)
      const base = principal({ route: assigned })
      const purpose = { purpose: 'clinic', description: '', enabled, route: draw(2) === 0 ? assigned : null }
      const caller = {
        ...base,
        workspace: { ...base.workspace, ...demanded(ofWorkspace) },
        purposes: [{ ...purpose, ...demanded(ofPurpose) }],
      }
      const selectors: Selectors = {
        purpose: isNamed ? { label: 'clinic', source: 'body' } : null,
        responseProfile: null,
        ...demanded(ofCall),
      }
      // A second time: what is kept of a selection must not serve a call that demands more.
      for (const one of [selectors, { purpose: null, responseProfile: null }]) {
        const demands = [
          ofWorkspace,
          one.purpose === null ? undefined : ofPurpose,
          one === selectors ? ofCall : undefined,
        ]
        const may = promises.map((promise) => oracle(promise, demands))
        const { selection, refusal } = select({
          principal: caller,
          call: { operation: 'chat', payload: chatCall(), selectors: one, warnings: [] },
          providers: PROVIDERS,
          random: () => 0.5,
          latency: createLatencyTracker(),
          health: createCircuitBreakers(),
          nowMs: 0,
        })
        const tried = selection?.candidates.map((candidate) => entries.indexOf(candidate.entry)) ?? []
        const right = may.flatMap((is, at) => (is ? [at] : []))
        const isRight =
          refusal === null
            ? String(tried) === String(right)
            : right.length === 0 && refusal.code === 'REQUIRED_FEATURE_UNAVAILABLE'
        if (!isRight) wrong.push({ promises, demands, tried, right, refusal: refusal?.code })
        if (refusal !== null) counts.refused += 1
        else if (right.length < entries.length) counts.dropped += 1
        else counts.served += 1
      }
    }
    t.same(wrong.slice(0, 3), [])
    t.ok(Math.min(...Object.values(counts)) > CASES / 10, JSON.stringify(counts))
  },
)

t.test('a refusal says what each entry lacks', async (t) => {
  const at = (name: string, residency: Residency) =>
    entry({ provider: configuredProvider({ name }), facts: facts({ capabilities: ['text'], ...residency }) })
  const entries = [
    at('here', { region: 'us', retention: { days: 30 }, training: 'never' }),
    at('there', { region: 'eu-west-1', training: 'allowed' }),
    at('nowhere', {}),
  ]
  const require = requirementsOf({ region: ['eu', 'ch'], retention: { days: 1 }, training: 'never' })
  const { refusal } = select({
    principal: principal({ route: route(entries) }),
    call: {
      operation: 'chat',
      payload: chatCall(),
      selectors: { purpose: null, responseProfile: null, require },
      warnings: [],
    },
    providers: PROVIDERS,
    random: () => 0.5,
    latency: createLatencyTracker(),
    health: createCircuitBreakers(),
    nowMs: 0,
  })
  t.match(refusal, {
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
    message: /: region, retention, training$/,
    extra: {
      details: {
        entries: [
          {
            left: 'residency',
            missing: ['region', 'retention'],
            detail: 'its region is us, not eu or ch; its retention is 30 days, not 1 day',
          },
          {
            missing: ['retention', 'training'],
            detail: 'its retention is not known, not 1 day; it may train with the content',
          },
          { missing: ['region', 'retention', 'training'], detail: /whether it trains is not known/ },
        ],
      },
    },
  })
})

t.test('demands as a text', async (t) => {
  const rows: [string, unknown][] = [
    ['region=eu', { region: ['eu'] }],
    [
      ' region = eu|us , retention=zero,training=never ',
      { region: ['eu', 'us'], retention: 'zero', training: 'never' },
    ],
    ['retention=30', { retention: { days: 30 } }],
    ['', {}],
    ['region=eu, region=us', null],
    ['region=eu=us', null],
    ['speed=1', { speed: '1' }],
    ['retention=many', { retention: 'many' }],
  ]
  for (const [text, fields] of rows) t.same(readRequirements(text), fields, text)
  t.equal(allRequirements([]), null)
  t.equal(allRequirements([null, undefined]), null)
  const both = allRequirements([requirementsOf({ region: 'eu' }), requirementsOf({ region: 'us' })])
  t.equal(
    brokenPromises({ region: 'eu' }, both!).length,
    1,
    'two sides that exclude one another leave nobody',
  )
})
