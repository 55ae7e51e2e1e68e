import { parentPort, workerData } from 'node:worker_threads'
import { Dice } from './dice.ts'
import { type DrawnDeaths, serveWords } from './live-words.ts'

const deaths = workerData as DrawnDeaths | null
const dice = new Dice(deaths?.seed ?? 0)
const { origin } = await serveWords(
  { teardown: () => {} },
  {
    death() {
      if (deaths === null || !dice.chance(deaths.chance)) return null
      const { hows, fromSeconds, toSeconds } = deaths
      return { how: dice.one(hows), afterSeconds: fromSeconds + dice.roll() * (toSeconds - fromSeconds) }
    },
    onDeath: (name, how) =>
      parentPort?.postMessage({ name, how, atMs: performance.timeOrigin + performance.now() }),
  },
)
parentPort?.postMessage(origin)
