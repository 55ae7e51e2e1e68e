import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { openDatabase } from '../../../src/gateway/state/embedded/database.ts'

// Opens new files, each at the moment at which all threads do; `arrivals` counts how often one has come to a file.
const { folder, files, threads, arrivals } = workerData
const failures: string[] = []
for (let number = 0; number < files; number += 1) {
  for (Atomics.add(arrivals, 0, 1); Atomics.load(arrivals, 0) < threads * (number + 1); );
  try {
    openDatabase(join(folder, `${number}.sqlite`)).close()
  } catch (error) {
    failures.push((error as Error).message)
  }
}
parentPort?.postMessage(failures)
