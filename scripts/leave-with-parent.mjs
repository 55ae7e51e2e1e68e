// Loaded into the program that scripts/runtime.mjs runs. Its channel to that parent closes when the parent dies,
// even of SIGKILL; the program then ends as it would on SIGTERM instead of living on with no one to stop it.

import { isMainThread } from 'node:worker_threads'

if (isMainThread && process.channel) {
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  process.channel.unref() // listening must not keep a program alive that is done
}
