import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { RecordVersion } from '../../../schema/catalog-store.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { RouteAnswer, VersionAnswer } from './answers.ts'
import { changePart } from './change-part.ts'
import { partOf } from './parts.ts'
import { type RouteName, versionOf } from './route-answers.ts'
import { notFound, routeIn, showRoute } from './routes.ts'

const ROUTE = '/workspaces/:workspace/routes/:route'
const PAGE_VERSIONS = 50

const VersionNumber = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const Page = Type.Object({ below: Type.Optional(VersionNumber) })
const RollBack = Type.Object({ number: VersionNumber })

type Call<Body, Query = unknown> = ConsoleCall<typeof ROUTE, Body, Query>

/** What was ever published of a route, and putting it in force again. */
export function routeVersionEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', `${ROUTE}/versions`, { query: Page }, listVersions),
    consoleEndpoint(desk, 'POST', `${ROUTE}/rollback`, { body: RollBack }, rollBack),
  ]
}

/** Also of a route that was taken away: it can be put in force again. */
async function listVersions(
  call: Call<unknown, Static<typeof Page>>,
): Promise<{ versions: VersionAnswer[] }> {
  const { desk, query } = call
  const record = routeIn(call.params)
  const part = partOf(desk, record)
  const versions = await desk.records.versions(record, query.below ?? null, PAGE_VERSIONS)
  if (versions.length === 0 && part === null && (await desk.records.get(record)) === null) throw notFound()
  const current = part?.version?.number ?? null
  return { versions: versions.map((version) => versionAnswer(record, version, current)) }
}

/** Publishes the fields of an older version anew. A draft is left as it is. */
async function rollBack(call: Call<Static<typeof RollBack>>): Promise<RouteAnswer> {
  const { desk, body } = call
  const record = routeIn(call.params)
  await changePart(call, async () => {
    const [older, now] = await Promise.all([
      desk.records.versionOf(record, body.number),
      desk.records.get(record),
    ])
    if (older === null) throw new GatewayError('NOT_FOUND', 'there is no such version')
    const note = `rolled back to ${body.number}`
    return {
      record,
      fields: older.fields,
      note,
      draft: now?.draft ?? null,
      keepsDraft: true,
      action: 'route.rollback',
    }
  })
  return showRoute(call)
}

function versionAnswer(record: RouteName, version: RecordVersion, current: number | null): VersionAnswer {
  const { number, fields, hash, atMs, by, note } = version
  return {
    number,
    version: versionOf(record, fields),
    hash,
    published_at: timestamp(atMs),
    published_by: by.name,
    note,
    fields: fields as unknown as VersionAnswer['fields'],
    current: number === current,
  }
}
