import type { Static, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { Value } from 'typebox/value'

/**
 * Values of a shape that are checked before it is compiled. Compiling one costs milliseconds and memory, and then a
 * check takes a fifth of the time (18 against 100 ms for a catalog of 500 workspaces); most configurations are small,
 * and most nodes never see a call of most endpoints.
 */
const CHECKS_BEFORE = 32

/**
 * Checks values against one shape, which is compiled once many were checked.
 *
 * @returns a function that also takes whether the value is as large as many
 */
export function shapeCheck<Shape extends TSchema>(
  shape: Shape,
): (value: unknown, isLarge?: boolean) => value is Static<Shape> {
  let checks = 0
  let compiled: Validator | null = null
  return (value, isLarge = false): value is Static<Shape> => {
    if (compiled === null && isLarge) compiled = Compile(shape) as Validator
    if (compiled !== null) return compiled.Check(value)
    checks += 1
    if (checks > CHECKS_BEFORE) compiled = Compile(shape) as Validator
    return Value.Check(shape, value)
  }
}

const checks = new WeakMap<TSchema, (value: unknown, isLarge?: boolean) => boolean>()

/**
 * Whether a value has a shape. What is known of a shape is kept, so that it is compiled once: give shapes that stay.
 *
 * @param isLarge it has as many parts as make it worth compiling the shape for it alone
 */
export function hasShape<Shape extends TSchema>(
  shape: Shape,
  value: unknown,
  isLarge = false,
): value is Static<Shape> {
  let check = checks.get(shape)
  if (check === undefined) {
    check = shapeCheck(shape)
    checks.set(shape, check)
  }
  return check(value, isLarge)
}
