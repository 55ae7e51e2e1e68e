import { randomUUID } from 'node:crypto'

/** Runs a claim with a token that it is to be known by. Rejects as the claim does. */
export type WithToken = <Answer>(claim: (token: string) => Promise<Answer>) => Promise<Answer>

/**
 * Tokens of claims of jobs. One whose answer did not come is used again by the next claim, so that what it took is
 * found and does not wait for the end of its lease; never by two at a time, or both would have it.
 */
export function createClaimTokens(): WithToken {
  const unanswered: string[] = []
  return async (claim) => {
    const token = unanswered.pop() ?? randomUUID()
    try {
      return await claim(token)
    } catch (error) {
      unanswered.push(token)
      throw error
    }
  }
}
