import { Pool } from 'undici'
import type { Larkway } from '../support/larkway.ts'

/** What a paid call came to. */
export interface PaidAnswer {
  readonly status: number
  readonly code: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  readonly provider: string | undefined
  readonly costUsd: number
  readonly warnings: readonly string[]
}

/** A call as JSON, which is made many times. */
export interface PaidCall {
  readonly path: string
  readonly body: object
  readonly authorization: string
}

/**
 * Makes the call `times` times at once, at each of the gateways in turn.
 *
 * @param connections to each of them: how many calls it is given at the same time
 */
export async function race(
  gateways: readonly Pick<Larkway, 'url'>[],
  { path, body, authorization }: PaidCall,
  times: number,
  connections = 200,
): Promise<PaidAnswer[]> {
  const pools = gateways.map(({ url }) => new Pool(url, { connections, pipelining: 1 }))
  const request = {
    path,
    method: 'POST' as const,
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }
  const answers = await Promise.all(
    Array.from({ length: times }, async (_, index) => {
      const pool = pools[index % pools.length]
      if (pool === undefined) throw new Error('there is no gateway')
      const { statusCode, body: answer } = await pool.request(request)
      return read(statusCode, await answer.json())
    }),
  )
  await Promise.all(pools.map((pool) => pool.close()))
  return answers
}

function read(status: number, answer: unknown): PaidAnswer {
  const { error, provider, cost_usd, warnings } = answer as {
    error?: { code: string; details: Readonly<Record<string, unknown>> }
    provider?: string
    cost_usd?: number
    warnings?: readonly string[]
  }
  return {
    status,
    code: error?.code,
    details: error?.details ?? {},
    provider,
    costUsd: cost_usd ?? 0,
    warnings: warnings ?? [],
  }
}

/** How an answer is counted: `200`, `402 INSUFFICIENT_CREDITS`. */
export function nameOfPaid({ status, code }: PaidAnswer): string {
  return code === undefined ? `${status}` : `${status} ${code}`
}
