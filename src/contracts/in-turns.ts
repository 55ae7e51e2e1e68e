/** The first of each group, then the second of each, and so on: no group has to wait for all of another. */
export function inTurns<One>(all: readonly One[], groupOf: (one: One) => string): One[] {
  const sizes = new Map<string, number>()
  const placed = all.map((one) => {
    const group = groupOf(one)
    const turn = sizes.get(group) ?? 0
    sizes.set(group, turn + 1)
    return { one, turn }
  })
  return placed.sort((one, other) => one.turn - other.turn).map(({ one }) => one)
}
