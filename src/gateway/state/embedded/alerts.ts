import type { AlertEvent, Alerts, Incident } from '../../../contracts/alerts.ts'
import { ALERTS_WORKSPACE, incidentName } from '../../../contracts/alerts.ts'
import type { StateDatabase } from './database.ts'
import type { Events } from './outbox.ts'
import type { Operations } from './subjects.ts'

/** Incidents that are open, and the events that tell of them. */
export function createAlerts(db: StateDatabase, events: Events, now: () => number): Operations<Alerts> {
  const list = db.query<{ readonly record: string }>('SELECT record FROM incidents')
  const put = db.prepare('INSERT OR IGNORE INTO incidents (name, id, record) VALUES (?, ?, ?)')
  const change = db.prepare('UPDATE incidents SET record = ? WHERE name = ? AND record = ?')
  const remove = db.prepare('DELETE FROM incidents WHERE name = ? AND id = ?')
  const tell = ({ id, occurredAtMs, body }: AlertEvent) =>
    events.announce(
      { id, jobId: id, workspace: ALERTS_WORKSPACE, status: 'alert', occurredAtMs, body },
      now(),
    )

  return {
    open: () => list.all().map(({ record }) => JSON.parse(record) as Incident),

    begin(incident, event) {
      const { changes } = put.run(incidentName(incident), incident.id, JSON.stringify(incident))
      if (changes === 0) return false
      tell(event)
      return true
    },

    update(before, after, event) {
      const { changes } = change.run(JSON.stringify(after), incidentName(before), JSON.stringify(before))
      if (changes === 0) return false
      if (event !== null) tell(event)
      return true
    },

    end(incident, event) {
      if (remove.run(incidentName(incident), incident.id).changes === 0) return false
      tell(event)
      return true
    },
  }
}
