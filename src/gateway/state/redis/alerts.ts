import {
  ALERTS_WORKSPACE,
  type AlertEvent,
  type Alerts,
  type Incident,
  incidentName,
} from '../../../contracts/alerts.ts'
import { ALERTS_PARTITION } from '../../../contracts/ids.ts'
import { keys } from './key-names.ts'
import { partitioned, placeOf } from './partitions.ts'
import { type Ask, script } from './script.ts'

const changeIncident = script('alerts/change_incident', {
  ...partitioned,
  args: ['name', 'expected', 'record', 'event_id', 'workspace', 'occurred', 'body'],
  reply: (reply) => reply === 1,
})

/** Incidents in Redis, in the partition of the events that tell of them. */
export function createRedisAlerts(ask: Ask): Alerts {
  const change = (incident: Incident, expected: string, record: string, event: AlertEvent | null) =>
    ask(
      changeIncident({
        ...placeOf(ALERTS_PARTITION),
        name: incidentName(incident),
        expected,
        record,
        event_id: event?.id ?? '',
        workspace: ALERTS_WORKSPACE,
        occurred: event?.occurredAtMs ?? 0,
        body: event?.body ?? '',
      }),
    )
  const recordOf = (incident: Incident) => `${incident.id} ${JSON.stringify(incident)}`
  return {
    async open() {
      const records = await ask((redis) => redis.hvals(keys.incidents))
      return records.map((record) => JSON.parse(record.slice(record.indexOf(' ') + 1)) as Incident)
    },
    begin: (incident, event) => change(incident, '', recordOf(incident), event),
    update: (before, after, event) => change(before, recordOf(before), recordOf(after), event),
    end: (incident, event) => change(incident, incident.id, '', event),
  }
}
