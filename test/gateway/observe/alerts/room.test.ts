import t from 'tap'
import type { Incident } from '../../../../src/contracts/alerts.ts'
import { inTurns } from '../../../../src/contracts/in-turns.ts'
import type { Finding } from '../../../../src/gateway/observe/alerts/findings.ts'
import { breakerFindings, OWNER_GONE, ownersIn } from '../../../../src/gateway/observe/alerts/findings.ts'
import { ROOM, withinRoom } from '../../../../src/gateway/observe/alerts/room.ts'
import { configuredProvider, entry, route } from '../../../support/catalog.ts'

const RULE = { name: 'budgets', kind: 'budget' } as const

/** Findings that break a rule. @param owner undefined: they are of nobody */
function broken(count: number, owner: string | undefined, from = 0): Finding[] {
  return Array.from({ length: count }, (_, at) => ({
    subject: { workspace: owner ?? 'platform', key: `key_${from + at}` },
    ...(owner === undefined ? {} : { owner }),
    value: 1 + (from + at) / 10_000,
    threshold: 1,
  }))
}

function openOf(findings: readonly Finding[]): Incident[] {
  return findings.map((finding, at) => ({
    ...{ id: `inc_${at}`, rule: RULE.name, kind: RULE.kind, openedAtMs: 0 },
    ...finding,
  }))
}

const rollUps = (found: readonly Finding[]) =>
  found.flatMap(({ subject, value }) => (subject.figure === undefined ? [] : [{ subject, value }]))

t.test('a workspace has its share, and one finding counts the rest', async (t) => {
  const found = withinRoom(RULE, broken(ROOM.ofEachWorkspace + 7, 'evil'), [])
  t.equal(found.length, ROOM.ofEachWorkspace + 1)
  t.same(rollUps(found), [{ subject: { workspace: 'evil', figure: 'more_incidents' }, value: 7 }])
  t.notOk(
    found.some(({ subject }) => subject.key === 'key_0'),
    'the worst come first',
  )
})

t.test('what is open keeps its place, and a free place is given again', async (t) => {
  const all = broken(ROOM.ofEachWorkspace + 7, 'evil')
  const open = openOf(withinRoom(RULE, all, []))
  const again = withinRoom(RULE, all, open)
  t.equal(again.length, open.length)
  t.same(rollUps(again), [{ subject: { workspace: 'evil', figure: 'more_incidents' }, value: 7 }])
  const others = all.slice(0, ROOM.ofEachWorkspace)
  const freed = withinRoom(RULE, others, open.slice(7))
  t.same(rollUps(freed), [], 'nothing is left to be counted')
  t.equal(freed.length, others.length)
  const well = all.map((one) => ({ ...one, value: 0 }))
  t.same(rollUps(withinRoom(RULE, well, open)), [])
})

t.test('many workspaces together leave room for what is of nobody', async (t) => {
  const many = Array.from({ length: 10 }, (_, at) => broken(ROOM.ofEachWorkspace, `ws_${at}`)).flat()
  const found = withinRoom(RULE, [...many, ...broken(ROOM.ofNobody + 3, undefined)], [])
  t.equal(found.length, ROOM.ofWorkspaces + ROOM.ofNobody + 1)
  const value = many.length - ROOM.ofWorkspaces + 3
  t.same(rollUps(found), [{ subject: { figure: 'more_incidents' }, value }])
  const owners = Map.groupBy(found, ({ owner }) => owner)
  for (let at = 0; at < 10; at += 1) t.equal(owners.get(`ws_${at}`)?.length, ROOM.ofWorkspaces / 10)
})

t.test('models of a provider that no route has any more have a share of their own', async (t) => {
  const mine = configuredProvider({ name: 'acme.one', access: 'byok', workspace: 'acme' })
  const ownerOf = ownersIn([route([entry(), entry({ provider: mine })])])
  t.same(['first', 'acme.one', 'acme.gone'].map(ownerOf), [null, 'acme', OWNER_GONE])
  const rule = { name: 'open', kind: 'breaker_open', forMs: 1_000, provider: null } as const
  const stretches = Array.from({ length: ROOM.ofEachWorkspace + 1 }, (_, at) => {
    return { provider: 'acme.gone', model: `m-${at}`, ms: 2_000 }
  })
  const findings = breakerFindings(rule, stretches, ownerOf)
  const found = withinRoom(rule, findings, [])
  t.same(rollUps(found), [{ subject: { figure: 'more_incidents' }, value: 1 }])
})

t.test('groups come in turns, each in its order', async (t) => {
  t.same(
    inTurns(['a1', 'a2', 'a3', 'b1', 'c1', 'b2'], (one) => one.slice(0, 1)),
    ['a1', 'b1', 'c1', 'a2', 'b2', 'a3'],
  )
})
