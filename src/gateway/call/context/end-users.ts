import { createHmac, hash, hkdfSync } from 'node:crypto'
import type { EndUser, EndUserTerms, Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { END_USER_HASH, END_USER_ID_RULE, isEndUserId } from '../../catalog/workspace.ts'
import type { AdmittedContext } from './call-context.ts'

/*
 * End users: the customers of a workspace, for whom it makes calls. A caller names one by any text of its own. Nothing
 * is kept of them in the process: their counters are keys in Redis or rows in SQLite, made when something is counted,
 * and gone with the month. A call without one passes a comparison with null.
 */

/** Keeps the key of this use apart from all others that are made of the same secret. */
const DERIVATION = 'larkway end users 1'
const KEY_BYTES = 32
/** Length of a keyed hash: 192 bits in base64url. */
const HASH_LENGTH = 32

/** The keyed hash of an id within a workspace: names can be tried only with the secret. */
export type EndUserHash = (workspace: string, id: string) => string

/**
 * @param secretKeys of which the oldest makes the key: that one stays when another is put before it, so that ids and
 *                   budgets do, too
 */
export function createEndUserHash(secretKeys: readonly Buffer[]): EndUserHash {
  const secret = secretKeys.at(-1)
  if (secret === undefined) throw new Error('hashing end users needs a key')
  const key = Buffer.from(hkdfSync('sha256', secret, '', DERIVATION, KEY_BYTES))
  return (workspace, id) => {
    const mac = createHmac('sha256', key)
      .update(JSON.stringify([workspace, id]))
      .digest('base64url')
    return `eu_${mac.slice(0, HASH_LENGTH)}`
  }
}

/**
 * Notes whom a call is for, as its caller names it.
 *
 * @param sent  undefined: no end user is named
 * @param param where it was sent
 * @returns INVALID_REQUEST naming `param`, after which no end user is noted; null: it is an id
 */
export function noteEndUser(
  { endUserHash }: { readonly endUserHash: EndUserHash },
  context: AdmittedContext,
  sent: string | undefined,
  param = 'X-LK-End-User',
): GatewayError | null {
  if (sent === undefined) return null
  if (!isEndUserId(sent))
    return new GatewayError('INVALID_REQUEST', `\`${param}\` ${END_USER_ID_RULE}`, { param })
  const { workspace } = context.principal
  const id = workspace.endUsers?.isHashed === true ? endUserHash(workspace.id, sent) : sent
  context.endUser = endUserOf(workspace, id)
  return null
}

/**
 * An end user by an id that was kept, of a job or a client secret, with the terms of the configuration in force. The
 * workspace may have ids hashed since then.
 */
export function keptEndUser(
  { endUserHash }: { readonly endUserHash: EndUserHash },
  { workspace }: Pick<Principal, 'workspace'>,
  id: string,
): EndUser {
  const isRaw = workspace.endUsers?.isHashed === true && !END_USER_HASH.test(id)
  return endUserOf(workspace, isRaw ? endUserHash(workspace.id, id) : id)
}

/** @param id as it is kept */
function endUserOf({ endUsers }: Principal['workspace'], id: string): EndUser {
  const terms = endUsers?.overrides.get(id) ?? endUsers?.terms ?? UNLIMITED
  return { id, account: accountOfEndUser(id), terms }
}

/** Names the counters of an end user. @param id as it is kept */
export function accountOfEndUser(id: string): string {
  return hash('sha256', id, 'base64url')
}

const UNLIMITED: EndUserTerms = Object.freeze({ budgetMicros: null, rateLimit: null })
