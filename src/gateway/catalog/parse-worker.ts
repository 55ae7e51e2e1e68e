import { parentPort, workerData } from 'node:worker_threads'
import { parseText } from './parse-text.ts'

// Entry of the thread that parses one long text.
parentPort?.postMessage(parseText(workerData as string))
