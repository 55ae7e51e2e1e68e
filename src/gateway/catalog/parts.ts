import type { Static, TSchema } from 'typebox'
import type { Capability } from '../../contracts/calls.ts'
import { hasShape } from '../../contracts/shape.ts'
import {
  type AppFields,
  AppShape,
  type EntryFields,
  EntryShape,
  type KeyFields,
  KeyShape,
  PlanShape,
  type ProviderFields,
  ProviderShape,
  type RouteFields,
  RouteShape,
  type SizeLimitFields,
  type WorkspaceFields,
  WorkspaceShape,
} from './file.ts'
import { kept, remembering } from './sharing.ts'

/** The named parts of a kind. A name that leads to null is in the file, but has not the right shape. */
export type Named<Part> = ReadonlyMap<string, Part | null>

export interface RouteDefinition {
  readonly fields: RouteFields
  /** In order; null where an entry has not the right shape. */
  readonly entries: readonly (EntryFields | null)[]
}

export interface WorkspaceDefinition {
  readonly fields: WorkspaceFields
  readonly apps: Named<AppFields>
  readonly keys: readonly (KeyFields | null)[]
}

/** The value when it has the shape, else null. */
export function shaped<Shape extends TSchema>(shape: Shape, value: unknown): Static<Shape> | null {
  return hasShape(shape, value) ? value : null
}

/** A key of something that may be no object at all. */
export function at(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Readonly<Record<string, unknown>>)[key]
    : undefined
}

export function isNamedList(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The document with those parts of another that are the same in both: what is remembered of them goes by identity. */
export function withPartsOf(before: unknown, document: unknown): unknown {
  if (!isNamedList(before) || !isNamedList(document)) return document
  const lists = Object.entries(document).map(([key, list]) => {
    const known = at(before, key)
    if (!isNamedList(known) || !isNamedList(list)) return [key, list]
    const parts = Object.entries(list).map(([name, part]) => [name, kept(at(known, name), part)])
    return [key, Object.fromEntries(parts)]
  })
  return Object.fromEntries(lists)
}

export function providersIn(document: unknown): Named<ProviderFields> {
  return namedParts(at(document, 'providers'), (value) => shaped(ProviderShape, value))
}

/** The capabilities and limits of the workspaces of a plan. */
export interface Plan {
  readonly includes: ReadonlySet<Capability>
  readonly limits: SizeLimitFields
}

const readPlan = remembering<Plan>()
const readRoute = remembering<RouteDefinition | null>()
const readWorkspace = remembering<WorkspaceDefinition | null>()

/** The plans by their names; one whose shape is wrong includes nothing. */
export function plansIn(document: unknown): ReadonlyMap<string, Plan> {
  const read = (value: unknown): Plan => {
    const { includes = [], limits = {} } = shaped(PlanShape, value) ?? {}
    return { includes: new Set(includes), limits }
  }
  return namedParts(at(document, 'plans'), (value) => readPlan(value, () => read(value)))
}

/** Routes, each entry on its own: one that has not the right shape does not hide what is wrong with the others. */
export function routesIn(document: unknown): Named<RouteDefinition> {
  const read = (value: unknown) => {
    const entries = arrayIn(at(value, 'entries')).map((entry) => shaped(EntryShape, entry))
    const whole = entries.filter((entry) => entry !== null)
    const fields = shaped(RouteShape, { ...Object(value), entries: whole })
    return fields && { fields, entries }
  }
  return namedParts(at(document, 'routes'), (value) => readRoute(value, () => read(value)))
}

/** Workspaces, each app and each key on its own. */
export function workspacesIn(document: unknown): Named<WorkspaceDefinition> {
  const read = (value: unknown) => {
    const fields = shaped(WorkspaceShape, { ...Object(value), apps: {}, keys: [] })
    const apps = namedParts(at(value, 'apps'), (app) => shaped(AppShape, app))
    const keys = arrayIn(at(value, 'keys')).map((key) => shaped(KeyShape, key))
    return fields && { fields, apps, keys }
  }
  return namedParts(at(document, 'workspaces'), (value) => readWorkspace(value, () => read(value)))
}

function namedParts<Part>(list: unknown, read: (value: unknown) => Part): ReadonlyMap<string, Part> {
  const names = isNamedList(list) ? Object.keys(list) : []
  return new Map(names.map((name) => [name, read(at(list, name))]))
}

export function arrayIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Kinds of parts that are referred to by name. */
type Kind = 'route' | 'provider'

/** Message for a name that does not exist. */
export function unknownPart(kind: Kind, name: string): string {
  return `there is no ${kind} "${name}"`
}

/** Message for a name that only another workspace may use. */
export function foreignPart(kind: Kind, name: string): string {
  return `the ${kind} "${name}" belongs to another workspace`
}

const FOREIGN = /\bthe (route|provider) "([^"]*)" belongs to another workspace$/

/** Hides other workspaces' parts from a line that ends with an issue: to this reader they do not exist. */
export function withoutForeign(line: string): string {
  return line.replace(FOREIGN, (_, kind: Kind, name: string) => unknownPart(kind, name))
}
