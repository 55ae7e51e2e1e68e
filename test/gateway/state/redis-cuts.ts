import { Redis } from 'ioredis'
import type { State } from '../../../src/contracts/state.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { type RedisProxy, startRedisProxy, type Verdict } from '../../support/redis-proxy.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import type { Teardown } from '../../support/scratch.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** Where the connection breaks that a command goes over. */
export const CUTS = [
  'cut before',
  'cut inside',
  'cut after',
  'cut inside the answer',
] as const satisfies Verdict[]

/** A state whose connections can be cut, and the same one past them. */
export interface CutState {
  /** Through the proxies. */
  readonly state: State
  /** Past them. */
  readonly direct: State
  readonly proxies: readonly RedisProxy[]
}

export interface EmptiedState extends CutState {
  empty(): Promise<unknown>
}

/** On one server, ended with the test. */
export async function startCutServer(t: Teardown): Promise<EmptiedState> {
  const redis = await startRedis(t)
  const proxy = await startRedisProxy(t, redis.port)
  const [direct, state] = [await openRedisState(t, redis.url), await openRedisState(t, proxy.url)]
  const client = new Redis(redis.url)
  t.teardown(() => client.disconnect())
  return { state, direct, proxies: [proxy], empty: () => client.flushall() }
}

/** On a cluster, ended with the test. */
export async function startCutCluster(t: Teardown): Promise<EmptiedState> {
  const { url, proxies, primaries } = await startRedisCluster(t, { proxied: true })
  const [direct, state] = [await openRedisState(t, url), await openRedisState(t, url)]
  const empty = () => Promise.all(primaries.map(({ client }) => client.flushall()))
  return { state, direct, proxies, empty }
}

/** What becomes of a command from now on; of all others nothing. */
export function judge({ proxies }: Pick<CutState, 'proxies'>, command: string, verdict: Verdict): void {
  for (const proxy of proxies) proxy.judge = ({ name }) => (name === command ? verdict : 'pass')
}

/** Runs it until it is answered; no longer than a connection takes to come back. */
export async function insist(run: () => Promise<unknown>): Promise<unknown> {
  let answer: unknown
  const isAnswered = () =>
    run().then(
      (value) => {
        answer = value
        return true
      },
      () => false,
    )
  if (!(await waitUntil(isAnswered))) throw new Error('the operation is not answered')
  return answer
}
