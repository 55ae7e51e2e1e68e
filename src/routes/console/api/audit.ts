import { type Static, Type } from 'typebox'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { AuditLine } from '../../../schema/catalog-store.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { AuditAnswer } from './answers.ts'
import { scopeOf, WorkspaceField } from './scope.ts'

const PATH = '/audit'
const PAGE_LINES = 100

const Query = Type.Object({
  workspace: WorkspaceField,
  below: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
})

/** Who changed what, newest first, a page at a time: of one workspace, or of all. */
export function auditEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'GET', PATH, { query: Query }, listAudit)
}

async function listAudit(call: ConsoleCall<typeof PATH, unknown, Static<typeof Query>>) {
  const { desk, query } = call
  const lines = await desk.records.audit(scopeOf(call), query.below ?? null, PAGE_LINES)
  return { lines: lines.map(auditAnswer) }
}

function auditAnswer({ by, atMs, ...line }: AuditLine): AuditAnswer {
  const { number, action, workspace, target, before, after, detail } = line
  return {
    number,
    at: timestamp(atMs),
    by: { via: by.via, key_id: by.keyId, name: by.name },
    action,
    workspace,
    target,
    before,
    after,
    detail,
  }
}
