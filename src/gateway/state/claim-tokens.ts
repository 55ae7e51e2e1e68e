import { randomUUID } from 'node:crypto'

/** Runs a claim of up to `limit` with a token that it is to be known by. Rejects as the claim does. */
export type WithToken = <Answer>(
  limit: number,
  claim: (token: string, limit: number) => Promise<Answer>,
) => Promise<Answer>

/**
 * Tokens of claims of jobs. One whose answer did not come is used again by the next claim, so that what it took is
 * found and does not wait for the end of its lease; never by two at a time, or both would have it. It then asks for no
 * more than before: what it does not ask for is put back, and the earlier claim may arrive after it, when its jobs run.
 */
export function createClaimTokens(): WithToken {
  const unanswered: { readonly token: string; readonly limit: number }[] = []
  return async (limit, claim) => {
    const again = unanswered.pop()
    const token = again?.token ?? randomUUID()
    const most = Math.min(limit, again?.limit ?? limit)
    try {
      return await claim(token, most)
    } catch (error) {
      unanswered.push({ token, limit: most })
      throw error
    }
  }
}
