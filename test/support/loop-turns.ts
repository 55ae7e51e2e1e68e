import { setImmediate as nextTurn } from 'node:timers/promises'

/** Does something, and counts the turns of the event loop that others had meanwhile. */
export async function turnsWithin<Result>(
  work: () => Result | Promise<Result>,
): Promise<{ turns: number; result: Result }> {
  let turns = 0
  let isDone = false
  const turn = () => {
    turns += 1
    if (!isDone) setImmediate(turn)
  }
  setImmediate(turn)
  await nextTurn()
  turns = 0
  try {
    const result = await work()
    return { turns, result }
  } finally {
    isDone = true
  }
}
