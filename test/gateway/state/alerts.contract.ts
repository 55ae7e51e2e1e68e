import type { Test } from 'tap'
import { ALERTS_WORKSPACE, type AlertEvent, type Incident } from '../../../src/contracts/alerts.ts'
import { newId } from '../../../src/contracts/ids.ts'
import { LONG_MS, type StateUnderTest } from '../../support/state-under-test.ts'

type Start = (t: Test) => Promise<StateUnderTest>

const claiming = { limit: 100, leaseMs: LONG_MS, perWorkspace: 100, perAiling: 100 }

function incidentOf(subject: Incident['subject'], over: Partial<Incident> = {}): Incident {
  return {
    id: newId('inc'),
    rule: 'budgets',
    kind: 'budget',
    subject,
    openedAtMs: 1_900_000_000_000,
    value: 0.83,
    threshold: 0.8,
    ...over,
  }
}

function eventOf(text: string): AlertEvent {
  return { id: newId('evt'), occurredAtMs: 1_900_000_000_000, body: JSON.stringify({ text }) }
}

/** Incidents and what is told of them, wherever they are kept. */
export function alertsContract(t: Test, start: Start): void {
  t.test('an incident begins once, and its event is written with it', async (t) => {
    const { alerts, outbox } = (await start(t)).state
    const [incident, event] = [incidentOf({ workspace: 'acme', key: 'key_1' }), eventOf('é "\\ 1')]
    t.same(await alerts.open(), [])
    t.equal(await alerts.begin(incident, event), true)
    t.equal(await alerts.begin(incident, event), false, 'sent again')
    const other = incidentOf({ key: 'key_1', workspace: 'acme' })
    t.equal(await alerts.begin(other, eventOf('2')), false, 'another of the same name')
    t.same(await alerts.open(), [incident])
    const about = {
      jobId: event.id,
      workspace: ALERTS_WORKSPACE,
      status: 'alert',
      occurredAtMs: event.occurredAtMs,
    }
    t.same(await outbox.claim(claiming), [{ ...event, ...about, attempts: 1 }])
  })

  t.test('those of other rules and subjects are others', async (t) => {
    const { alerts } = (await start(t)).state
    const all = [
      incidentOf({ workspace: 'acme' }),
      incidentOf({ workspace: 'acme' }, { rule: 'other' }),
      incidentOf({ workspace: 'other' }),
      incidentOf({ key: 'acme' }),
    ]
    for (const one of all) t.equal(await alerts.begin(one, eventOf('')), true)
    t.same((await alerts.open()).map(({ id }) => id).sort(), all.map(({ id }) => id).sort())
  })

  t.test('an incident ends once, and may begin anew', async (t) => {
    const { alerts, outbox } = (await start(t)).state
    const incident = incidentOf({ workspace: 'acme' })
    t.equal(await alerts.end(incident, eventOf('none')), false, 'none is open')
    await alerts.begin(incident, eventOf('1'))
    t.equal(await alerts.end(incidentOf({ workspace: 'acme' }), eventOf('other')), false, 'an older one')
    t.equal(await alerts.end(incident, eventOf('2')), true)
    t.equal(await alerts.end(incident, eventOf('2')), false)
    t.same(await alerts.open(), [])
    t.equal(await alerts.begin(incidentOf({ workspace: 'acme' }), eventOf('3')), true)
    const bodies = (await outbox.claim(claiming)).map(({ body }) => body)
    t.same(
      bodies.sort(),
      ['1', '2', '3'].map((text) => JSON.stringify({ text })),
    )
  })

  t.test('what is known of an open incident changes, told or untold', async (t) => {
    const { alerts, outbox } = (await start(t)).state
    const incident = incidentOf({ workspace: 'acme' })
    t.equal(await alerts.update(incident, incident, eventOf('none')), false, 'none is open')
    await alerts.begin(incident, eventOf('1'))
    const [later, full] = [
      { ...incident, value: 0.98 },
      { ...incident, value: 1, isExhausted: true },
    ]
    t.equal(await alerts.update(incident, later, null), true)
    const [read] = await alerts.open()
    t.same(read, later)
    t.equal(await alerts.update(read!, full, eventOf('2')), true)
    t.same(await alerts.open(), [full])
    t.equal(await alerts.update(read!, full, eventOf('2 again')), false, 'it is another by now')
    const other = incidentOf({ workspace: 'acme' })
    t.equal(await alerts.update(other, other, eventOf('3')), false, 'another one')
    t.equal(await alerts.end(full, eventOf('4')), true)
    t.equal(await alerts.update(full, full, null), false)
    const bodies = (await outbox.claim(claiming)).map(({ body }) => body)
    t.same(
      bodies.sort(),
      ['1', '2', '4'].map((text) => JSON.stringify({ text })),
    )
  })

  t.test('of many that begin at once one does', async (t) => {
    const { alerts, outbox } = (await start(t)).state
    const begun = await Promise.all(
      Array.from({ length: 20 }, () => alerts.begin(incidentOf({ provider: 'p', model: 'm' }), eventOf(''))),
    )
    t.equal(begun.filter(Boolean).length, 1)
    t.equal((await outbox.claim(claiming)).length, 1)
  })

  t.test('an event is retried, delivered and given up like any other', async (t) => {
    const { state, pass } = await start(t)
    const { alerts, outbox } = state
    await alerts.begin(incidentOf({ workspace: 'acme' }), eventOf('1'))
    await alerts.begin(incidentOf({ workspace: 'other' }), eventOf('2'))
    const [one, two] = await outbox.claim(claiming)
    if (one === undefined || two === undefined) throw new Error('there are not two')
    t.equal(await outbox.end(one, { state: 'retry', delayMs: 20, reason: 'status 500' }), true)
    t.equal(await outbox.end(two, { state: 'given_up', reason: 'status 410', keepMs: LONG_MS }), true)
    t.same(await outbox.givenUp(Date.now()), [{ workspace: ALERTS_WORKSPACE, events: 1 }])
    t.same(await outbox.givenUp(Date.now() + 2 * LONG_MS), [])
    t.match(await outbox.list(ALERTS_WORKSPACE, 10), [{ status: 'alert' }, { status: 'alert' }])
    t.equal(await outbox.redeliver(two.jobId), false, 'there is no job')
    await pass(60)
    const [again] = await outbox.claim(claiming)
    t.same(again, { ...one, attempts: 2 }, 'with the same body')
    t.equal(await outbox.end({ ...one, attempts: 2 }, { state: 'delivered' }), true)
    t.equal((await outbox.list(null, 10)).length, 1)
  })
}
