/** Passes on what Node warns of, in place of its own print. Node 22 calls its SQLite experimental, which is known. */
export function onWarning(tell: (warning: Error) => void): void {
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    const isKnown = warning.name === 'ExperimentalWarning' && warning.message.startsWith('SQLite ')
    if (!isKnown) tell(warning)
  })
}
