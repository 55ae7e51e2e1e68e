import { GatewayError } from '../../src/contracts/errors.ts'

/** The error that `act` is refused with. Anything else that it throws goes on, and so does its success. */
export function refusalOf(act: () => unknown): GatewayError {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('was not refused')
}
