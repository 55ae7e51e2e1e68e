import { parentPort, workerData } from 'node:worker_threads'
import { type SandboxOptions, startSandbox } from './server.ts'

// Entry of the sandbox's own thread: decoding an hour of audio must not stop the gateway's event loop.
const { url, port, close } = await startSandbox(workerData as SandboxOptions)
parentPort?.once('message', () => {
  void close().then(() => parentPort?.close())
})
parentPort?.postMessage({ url, port })
