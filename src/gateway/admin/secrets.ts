import { recordId } from '../../contracts/catalog-store.ts'
import { resealed } from '../../contracts/sealing.ts'
import { isSealed, resealedCredential } from '../catalog/secret.ts'
import { webhookSecretContext } from '../webhooks/target.ts'
import { type AdminActor, type AdminContext, requireOperator } from './actor.ts'
import { audit, workspaceChange } from './audit.ts'
import { changePart } from './change.ts'
import { partOf } from './parts.ts'

/** Secrets that were looked at, by what they belong to: `provider/acme.openai`, `webhook/acme`. */
export interface Resealed {
  /** Sealed with the first key now. */
  readonly done: readonly string[]
  /** Sealed with it before. */
  readonly kept: readonly string[]
  /** Opened by none of the keys: they have to be set again. */
  readonly lost: readonly string[]
}

/** Signed URLs, uploads, sign-ins and tokens of pages end within this time, ms. */
const DAY_MS = 86_400_000

/**
 * Seals all that is kept for good with the first key: credentials of published providers, and secrets of webhooks. A
 * provider gets a new version. What was sealed with another key and ends by itself stays as it is.
 *
 * @throws GatewayError PERMISSION_DENIED, CONFLICT, DEPENDENCY_UNAVAILABLE; done again it does the rest
 */
export async function resealSecrets(
  actor: AdminActor,
  context: Pick<AdminContext, 'state' | 'catalog' | 'webhooks'>,
): Promise<Resealed> {
  requireOperator(actor)
  const found = { done: [] as string[], kept: [] as string[], lost: [] as string[] }
  for (const [name, outcome] of [
    ...(await resealProviders(actor, context)),
    ...(await resealWebhooks(actor, context)),
  ])
    found[outcome].push(name)
  return found
}

type Outcomes = (readonly [string, keyof Resealed])[]

async function resealProviders(
  actor: AdminActor,
  context: Pick<AdminContext, 'state' | 'catalog' | 'webhooks'>,
): Promise<Outcomes> {
  const { secretKeys } = context.webhooks
  const outcomes: Outcomes = []
  for (const { kind, workspace, name, fields } of (await context.state.catalog.published()).records) {
    const record = { kind, workspace, name }
    if (kind !== 'provider' || !isSealed(fields.api_key)) continue
    let outcome: keyof Resealed = 'kept'
    await changePart(
      actor,
      (catalog) => {
        const fields = partOf(catalog, record)?.fields ?? {}
        const { api_key: sealed } = fields
        const api_key = isSealed(sealed) ? resealedCredential(secretKeys, name, sealed) : sealed
        outcome = api_key === null ? 'lost' : api_key === sealed ? 'kept' : 'done'
        if (outcome !== 'done') return null
        return {
          record,
          fields: { ...fields, api_key },
          action: 'provider.reseal',
          note: 'sealed with a new key',
        }
      },
      context,
    )
    outcomes.push([recordId(record), outcome])
  }
  return outcomes
}

async function resealWebhooks(
  actor: AdminActor,
  {
    state: { settings, catalog },
    catalog: served,
    webhooks: { secretKeys },
  }: Pick<AdminContext, 'state' | 'catalog' | 'webhooks'>,
): Promise<Outcomes> {
  const outcomes: Outcomes = []
  for (const workspace of (await served()).current().apps.keys()) {
    const webhook = await settings.webhook(workspace)
    if (webhook === null) continue
    const context = webhookSecretContext(workspace)
    const secret = resealed(secretKeys, webhook.secret, context)
    const previous = webhook.previous && resealed(secretKeys, webhook.previous.secret, context)
    const isSame = secret === webhook.secret && previous === (webhook.previous?.secret ?? null)
    const name = `webhook/${workspace}`
    if (secret === null || isSame) {
      outcomes.push([name, secret === null ? 'lost' : 'kept'])
      continue
    }
    await audit(catalog, actor, workspaceChange('webhook.reseal', workspace))
    // One that was set meanwhile was sealed with the first key of a node.
    const isDone = await settings.resealWebhook(workspace, webhook, { secret, previous })
    outcomes.push([name, isDone ? 'done' : 'kept'])
  }
  return outcomes
}

/**
 * When nothing is left that was sealed or signed with the keys behind the first, if every node has the first one by
 * now. Epoch milliseconds.
 */
export async function formerKeysEndMs({
  catalog,
  nowMs,
}: Pick<AdminContext, 'catalog' | 'nowMs'>): Promise<number> {
  const good = (await catalog()).good()
  const references = good.routes.flatMap(({ shadow }) => shadow?.references?.ttlSeconds ?? [])
  const seconds = Math.max(good.snapshot.limits.stt_job_result_ttl_seconds, ...references)
  return nowMs() + Math.max(DAY_MS, seconds * 1_000)
}
