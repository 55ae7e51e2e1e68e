import { newId } from '../../contracts/ids.ts'
import { formatUsd, parseUsd } from '../catalog/terms.ts'
import { invalidField } from '../edge/refusals.ts'
import { type AdminActor, type AdminContext, requireOperator, requireWorkspace } from './actor.ts'
import { audit, workspaceChange } from './audit.ts'
import { accountTerms } from './parts.ts'

/** As long as the `grant_id` of a configuration. */
export const GRANT_ID = { pattern: '^[\\x21-\\x7e]{1,64}$', description: '1 to 64 visible ASCII characters' }

/** Credits that are granted, or taken back when the amount is negative. */
export interface CreditsInput {
  readonly workspace: string
  readonly amountUsd: string | number
  /** An id is granted once, so that a command with an unknown outcome can be given again. */
  readonly grantId: string
}

export interface CreditsGranted {
  /** False: the id was granted before. */
  readonly granted: boolean
  readonly amountMicros: number
  readonly creditsMicros: number
}

export function newGrantId(): string {
  return newId('grant')
}

/**
 * Adds credits to a workspace, or takes them back, down to 0.
 *
 * @throws GatewayError PERMISSION_DENIED, NOT_FOUND, INVALID_REQUEST naming the field, also for an id that was granted
 *         with another amount, DEPENDENCY_UNAVAILABLE
 */
export async function addCredits(
  actor: AdminActor,
  { workspace, amountUsd, grantId: id }: CreditsInput,
  context: Pick<AdminContext, 'state' | 'catalog'>,
): Promise<CreditsGranted> {
  requireOperator(actor)
  const amountMicros = parseUsd(String(amountUsd))
  if (amountMicros === null || amountMicros === 0)
    throw invalidField('amount_usd', 'must be an amount in USD other than 0, with at most 6 decimals')
  if (!new RegExp(GRANT_ID.pattern).test(id))
    throw invalidField('grant_id', `must be ${GRANT_ID.description}`)
  const catalog = await context.catalog()
  requireWorkspace(actor, workspace, catalog)
  const { accounts, catalog: records } = context.state
  // Grants what the configuration gives first: what is taken back may be of that.
  const { grants, creditsMicros } = await accounts.show(workspace, accountTerms(catalog, workspace))
  const earlier = grants.find((grant) => grant.id === id)
  if (earlier !== undefined && !isSameGrant(earlier.micros, amountMicros))
    throw invalidField('grant_id', `was granted before with another amount, ${formatUsd(earlier.micros)} USD`)
  if (earlier !== undefined) return { granted: false, amountMicros, creditsMicros }
  const detail = `${formatUsd(amountMicros)} USD as ${id}`
  const after = { id, micros: amountMicros }
  await audit(records, actor, { ...workspaceChange('credits.add', workspace), after, detail })
  const { booked: granted, creditsMicros: now } = await accounts.addCredits(workspace, after)
  return { granted, amountMicros, creditsMicros: now }
}

/** Whether a grant may be that of an amount: no more is taken back than there was. */
function isSameGrant(grantedMicros: number, amountMicros: number): boolean {
  return grantedMicros === amountMicros || (grantedMicros <= 0 && grantedMicros > amountMicros)
}
