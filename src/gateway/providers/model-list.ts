import type { Operation, Target } from '../../contracts/provider.ts'
import type { UpstreamReply } from '../../contracts/upstream.ts'
import { isGood } from './answer.ts'
import { classify, failed, unusable } from './failure.ts'

/** How a protocol is asked for its models, or for whatever it has in place of such a list. */
export interface ModelListing {
  /** Below the base URL, with its query. */
  readonly path: string
  headers(target: Target): Readonly<Record<string, string>>
  /** Names out of a good answer, whatever else stands among them; null when it is no such list. */
  names(reply: UpstreamReply): readonly unknown[] | null
}

/** One GET that lists the models which the credential sees. */
export function modelList({ path, headers, names }: ModelListing): Operation<null, readonly string[]> {
  return {
    start: (_call, target) => ({
      kind: 'send',
      request: { method: 'GET', url: `${target.baseUrl}${path}`, headers: headers(target), body: [] },
      state: null,
    }),
    next(_state, reply) {
      if (!isGood(reply)) return failed(classify(reply))
      const given = names(reply)
      if (given === null) return failed(unusable(reply, 'the answer of the provider is no list of models'))
      return { kind: 'done', result: [...new Set(given.filter((name) => typeof name === 'string'))] }
    },
  }
}
