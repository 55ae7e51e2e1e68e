import type { RedisCluster } from './redis-cluster.ts'

/** A slot of a cluster on its way from the node that has it to another. */
export interface MovingSlot {
  /** Keys that the old node still has. */
  left(): Promise<number>
  move(...keys: string[]): Promise<void>
  moveRest(): Promise<void>
  /** Has all nodes know whose the slot is now. */
  finish(): Promise<void>
  readonly to: RedisCluster['primaries'][number]
}

/** Begins to move the slot of a key; nothing is moved yet. */
export async function beginToMove(
  { primaries }: Pick<RedisCluster, 'primaries'>,
  key: string,
): Promise<MovingSlot> {
  const slot = Number(await primaries[0]!.client.call('CLUSTER', 'KEYSLOT', key))
  const countOf = async ({ client }: (typeof primaries)[number]) =>
    Number(await client.call('CLUSTER', 'COUNTKEYSINSLOT', slot))
  const counts = await Promise.all(primaries.map(countOf))
  const from = primaries[counts.findIndex((count) => count > 0)]!
  const to = primaries.find((node) => node !== from)!
  await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
  await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
  const move = async (...keys: string[]) => {
    if (keys.length > 0) await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys)
  }
  return {
    to,
    move,
    left: () => countOf(from),
    async moveRest() {
      while ((await countOf(from)) > 0)
        await move(...((await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 50)) as string[]))
    },
    async finish() {
      for (const { client } of [to, from, ...primaries])
        await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
    },
  }
}
