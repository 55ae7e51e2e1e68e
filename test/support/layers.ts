/**
 * Folders and files of `src/`, layer by layer. Imports point down this list or stay in their folder. Never up, never
 * sideways.
 */
export const LAYERS = [
  'main cli node',
  'console',
  'api',
  'admin alerts',
  'jobs webhooks live',
  'gateway',
  'inbound providers sandbox catalog state storage workers recorder usage',
  'outbound tracing media',
  'contracts call-facts errors limits log metrics ids secrets sealing instants time version shape ' +
    'cancellation one-at-a-time in-turns trim',
].map((names) => names.split(' '))
