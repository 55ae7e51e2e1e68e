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

/** Takes the time until it is asked. @returns the longest time for which nothing else could run, milliseconds of CPU */
export function watchTurns() {
  let isOver = false
  let longest = 0
  let last = process.cpuUsage()
  const turn = () => {
    const { user, system } = process.cpuUsage(last)
    longest = Math.max(longest, (user + system) / 1000)
    last = process.cpuUsage()
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  return async () => {
    isOver = true
    await new Promise((resolve) => setTimeout(resolve, 5))
    return longest
  }
}
