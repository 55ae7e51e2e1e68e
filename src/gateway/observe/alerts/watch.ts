import type { AlertEvent, AlertRule, AlertTerms, Incident } from '../../../contracts/alerts.ts'
import { incidentName } from '../../../contracts/alerts.ts'
import type { Route, Snapshot } from '../../../contracts/catalog.ts'
import { newId } from '../../../contracts/ids.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { ModelTable } from '../../../contracts/models.ts'
import type { PermitLease } from '../../../contracts/permits.ts'
import type { State } from '../../../contracts/state.ts'
import { type Clock, sleep } from '../../../contracts/time.ts'
import { Figures } from './figures.ts'
import { type Finding, MARGIN, standingOf } from './findings.ts'
import { withinRoom } from './room.ts'

/** Every rule is looked at so often. */
const ROUND_MS = 15_000
/** The one permit of all nodes: who holds it looks. */
const WATCH_PERMIT = { name: 'alerts', most: 1 }

export interface AlertTiming {
  readonly roundMs: number
}

export interface AlertWatchDependencies {
  readonly state: Pick<
    State,
    'alerts' | 'permits' | 'console' | 'accounts' | 'keys' | 'outbox' | 'jobs' | 'memory'
  >
  readonly snapshot: () => Snapshot
  readonly routes: () => readonly Route[]
  readonly models: () => ModelTable
  readonly log: Logger
  /** Called when there is something to deliver. */
  readonly onEvent: () => void
  readonly clock: Clock
  readonly timing?: Partial<AlertTiming>
}

export interface AlertWatch {
  /** Looks once, if this node is the one that does. Never rejects. */
  round(): Promise<void>
  /** Looks no more; another node may. */
  stop(): Promise<void>
}

/**
 * Watches what the configuration asks for, on one node of all: whoever has the permit, which is free again seconds
 * after its process has died. What is open is kept in the state, and begins and ends there in one step with what is
 * told of it; so an incident is told once, and its end once, also where two nodes believe that they are the one.
 */
export function createAlertWatch(deps: AlertWatchDependencies): AlertWatch {
  return new Watch(deps)
}

/** The same, looking until it is stopped. */
export function startAlertWatch(deps: AlertWatchDependencies): AlertWatch {
  const watch = createAlertWatch(deps)
  const roundMs = deps.timing?.roundMs ?? ROUND_MS
  const stopping = new AbortController()
  const { signal } = stopping
  const rounds = async () => {
    while (!signal.aborted) {
      await watch.round()
      await sleep(deps.clock, roundMs, { signal, ref: false }).catch(() => {})
    }
  }
  const done = rounds()
  return {
    round: () => watch.round(),
    async stop() {
      stopping.abort()
      await done
      await watch.stop()
    },
  }
}

class Watch implements AlertWatch {
  readonly #deps: AlertWatchDependencies
  readonly #figures: Figures
  #lease: PermitLease | null = null
  /** Since when the cause of an incident is gone, by its id. A node that takes over counts anew. */
  readonly #wellSince = new Map<string, number>()
  /** Rules whose figures could not be read the last time. */
  readonly #unread = new Set<string>()
  #away = false

  constructor(deps: AlertWatchDependencies) {
    this.#deps = deps
    this.#figures = new Figures(deps)
  }

  async round(): Promise<void> {
    const terms = this.#deps.snapshot().alerts
    if (terms === undefined) return this.stop()
    if (!(await this.#leads())) return
    try {
      await this.#look(terms)
      if (this.#away) this.#deps.log.info('alerts are watched again')
      this.#away = false
    } catch (error) {
      if (!this.#away) this.#deps.log.warn({ err: error }, 'alerts cannot be watched')
      this.#away = true
    }
  }

  async stop(): Promise<void> {
    this.#lease?.release()
    this.#lease = null
    this.#wellSince.clear()
  }

  async #leads(): Promise<boolean> {
    if (this.#lease !== null) return true
    const taken = await this.#deps.state.permits.take([WATCH_PERMIT])
    if ('full' in taken) return false
    this.#lease = taken.lease
    return true
  }

  async #look(terms: AlertTerms): Promise<void> {
    const nowMs = this.#deps.clock.wallNow()
    const open = new Map((await this.#deps.state.alerts.open()).map((one) => [incidentName(one), one]))
    await this.#figures.begin(terms.rules, [...open.values()], nowMs)
    for (const rule of terms.rules) {
      const findings = await this.#findingsOf(rule)
      if (findings !== null) await this.#apply(rule, findings, open, terms)
    }
    const known = new Set(terms.rules.map(({ name }) => name))
    for (const incident of open.values()) if (!known.has(incident.rule)) await this.#end(incident, null)
    const ids = new Set([...open.values()].map(({ id }) => id))
    for (const id of this.#wellSince.keys()) if (!ids.has(id)) this.#wellSince.delete(id)
  }

  /** Null: its figures cannot be read, so that nothing of it begins or ends. */
  async #findingsOf(rule: AlertRule): Promise<readonly Finding[] | null> {
    try {
      const findings = await this.#figures.of(rule)
      this.#unread.delete(rule.name)
      return findings
    } catch (error) {
      if (!this.#unread.has(rule.name))
        this.#deps.log.warn({ rule: rule.name, err: error }, 'an alert rule cannot be looked at')
      this.#unread.add(rule.name)
      return null
    }
  }

  async #apply(
    rule: AlertRule,
    findings: readonly Finding[],
    open: Map<string, Incident>,
    { recoverAfterMs }: AlertTerms,
  ): Promise<void> {
    const ofRule = [...open.values()].filter((incident) => incident.rule === rule.name)
    const found = new Map(
      withinRoom(rule, findings, ofRule).map((finding) => {
        return [incidentName({ rule: rule.name, subject: finding.subject }), finding]
      }),
    )
    for (const [name, incident] of open) {
      if (incident.rule !== rule.name) continue
      const finding = found.get(name)
      if (finding === undefined && !this.#figures.covers(rule, incident)) {
        // A round looks at some of many budgets; the next look tells of this one.
        if (rule.kind !== 'budget') this.#wellSince.delete(incident.id)
        continue
      }
      if (finding !== undefined) open.set(name, await this.#update(incident, finding))
      if (finding !== undefined && standingOf(finding) !== 'well') this.#wellSince.delete(incident.id)
      else if (this.#isOver(incident, recoverAfterMs)) {
        await this.#end(incident, finding?.value ?? null)
        open.delete(name)
      }
    }
    for (const [name, finding] of found) {
      if (!open.has(name) && standingOf(finding) === 'broken')
        open.set(name, await this.#begin(rule, finding))
    }
  }

  #isOver({ id }: Incident, recoverAfterMs: number): boolean {
    const nowMs = this.#deps.clock.wallNow()
    const sinceMs = this.#wellSince.get(id) ?? nowMs
    this.#wellSince.set(id, sinceMs)
    return nowMs - sinceMs >= recoverAfterMs
  }

  async #begin({ name: rule, kind }: AlertRule, finding: Finding): Promise<Incident> {
    const { subject, owner, value, threshold, isExhausted } = finding
    const { state, clock, log, onEvent } = this.#deps
    const openedAtMs = clock.wallNow()
    const incident: Incident = {
      ...{ id: newId('inc'), rule, kind, subject },
      ...(owner === undefined ? {} : { owner }),
      ...{ openedAtMs, value, threshold },
      ...(isExhausted === undefined ? {} : { isExhausted }),
    }
    const event = eventOf(incident, 'alert.opened', { occurredAtMs: openedAtMs, value })
    if (await state.alerts.begin(incident, event)) {
      log.warn({ incident: incident.id, rule, event_id: event.id }, 'an incident has begun')
      onEvent()
    }
    return incident
  }

  /** Keeps the figure of now, and tells when a budget is exhausted. @returns the incident as it is kept */
  async #update(incident: Incident, { value, isExhausted }: Finding): Promise<Incident> {
    // Without money left no more calls are made and refused, and those under way give back what they do not cost: so
    // exhaustion lasts until the figure has fallen well below its highest.
    const was = incident.isExhausted === true
    const peak = was ? Math.max(incident.peak ?? incident.value, value) : value
    const stays = was && value > peak * (1 - MARGIN)
    const exhausted = isExhausted === undefined ? {} : { isExhausted: isExhausted || stays, peak }
    const updated: Incident = { ...incident, value, ...exhausted }
    const isNew = updated.isExhausted === true && !was
    if (!isNew && rounded(value) === rounded(incident.value) && updated.isExhausted === incident.isExhausted)
      return incident
    const { state, clock, log, onEvent } = this.#deps
    const event = isNew ? eventOf(updated, 'alert.exhausted', { occurredAtMs: clock.wallNow(), value }) : null
    // Another node that believes to be the one may have told it.
    if (!(await state.alerts.update(incident, updated, event))) return incident
    if (event !== null) {
      log.warn({ incident: incident.id, rule: incident.rule, event_id: event.id }, 'a budget is exhausted')
      onEvent()
    }
    return updated
  }

  /** @param value the figure by now; null: there is none any more */
  async #end(incident: Incident, value: number | null): Promise<void> {
    const { state, clock, log, onEvent } = this.#deps
    const occurredAtMs = clock.wallNow()
    const event = eventOf(incident, 'alert.recovered', { occurredAtMs, value })
    this.#wellSince.delete(incident.id)
    if (!(await state.alerts.end(incident, event))) return
    log.info({ incident: incident.id, rule: incident.rule, event_id: event.id }, 'an incident is over')
    onEvent()
  }
}

/** The event that is sent: names of the configuration, ids of end users as they are kept, and figures. */
function eventOf(
  { id, rule, kind, subject, openedAtMs, threshold, isExhausted }: Incident,
  type: 'alert.opened' | 'alert.exhausted' | 'alert.recovered',
  { occurredAtMs, value }: { readonly occurredAtMs: number; readonly value: number | null },
): AlertEvent {
  const body = JSON.stringify({
    type,
    incident_id: id,
    rule,
    kind,
    subject,
    value: value === null ? null : rounded(value),
    threshold,
    ...(isExhausted === undefined || type === 'alert.recovered' ? {} : { exhausted: isExhausted }),
    opened_at: new Date(openedAtMs).toISOString(),
    occurred_at: new Date(occurredAtMs).toISOString(),
  })
  return { id: newId('evt'), occurredAtMs, body }
}

function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000
}
