-- Takes events of a partition whose time has come, workspaces in turn: first of those that are well. They are done soon,
-- while many that time out would have all the places to themselves.
--
-- KEYS partition never
-- ARGV limit lease_ms per_workspace per_ailing
-- Reply {more, event, …}: each event as {job_id, id, workspace, status, occurred, attempts, body}; `more` = 1 when
--       asking again may find others
--
-- A workspace is looked at when it may have something: an event is due and it has a place free, or a lease is over. Each
-- look puts that off, so those that have nothing to give now cost nothing until they may. Events that were given up are
-- forgotten here, when it is time.

local SWEPT_AT_ONCE = 50
local LOOKS_MAX = 200

local limit, lease_until = tonumber(ARGV[1]), digits(now_ms + ARGV[2])
local per_workspace = tonumber(ARGV[3])
local per_ailing = math.min(tonumber(ARGV[4]), per_workspace)
local now_us = time[1] * 1000000 + time[2]

local function over(name, count)
  return redis.call('ZRANGEBYSCORE', name, '-inf', digits(now_ms), 'LIMIT', 0, count)
end

-- When the first of them is over; nil: there is none.
local function first_ms(name) return tonumber(redis.call('ZRANGE', name, 0, 0, 'WITHSCORES')[2]) end

local function put_back(workspace)
  for _, id in ipairs(over(key('flights', workspace), SWEPT_AT_ONCE)) do
    redis.call('ZADD', key('due', workspace), digits(now_ms), id)
    redis.call('ZREM', key('flights', workspace), id)
  end
end

-- Puts the event on its way. Returns whether there is still one.
local function take(id, workspace)
  local is_there = exists(key('event', id))
  if is_there then redis.call('ZADD', key('flights', workspace), lease_until, id) end
  redis.call('ZREM', key('due', workspace), id)
  if not is_there then redis.call('ZREM', key('events'), id) end
  return is_there
end

-- The id of its first event that is due, as long as it has less than `most` in flight.
local function take_from(workspace, round_robin, most)
  local due, flights = key('due', workspace), key('flights', workspace)
  put_back(workspace)
  local places = most - redis.call('ZCARD', flights)
  local id = places > 0 and over(due, 1)[1]
  local is_taken = id and take(id, workspace)
  if is_taken then places = places - 1 end
  local due_ms = places > 0 and first_ms(due) or math.huge
  local next_ms = math.min(due_ms, first_ms(flights) or math.huge)
  if next_ms < math.huge then
    redis.call('ZADD', round_robin, digits(math.max(next_ms * 1000, now_us)), workspace)
  else
    redis.call('ZREM', round_robin, workspace)
  end
  return is_taken and id
end

local function begin_attempt(id)
  local name = key('event', id)
  local held = redis.call('HMGET', name, 'id', 'workspace', 'status', 'occurred', 'again', 'body')
  if held[5] then
    redis.call('HSET', name, 'attempts', '0')
    redis.call('HDEL', name, 'again', 'reason')
  end
  local attempts = redis.call('HINCRBY', name, 'attempts', 1)
  redis.call('HDEL', name, 'ended')
  return { id, held[1], held[2], held[3], held[4], digits(attempts), held[6] }
end

for _, id in ipairs(over(key('given_up'), SWEPT_AT_ONCE)) do
  redis.call('DEL', key('event', id))
  redis.call('ZREM', key('events'), id)
  redis.call('ZREM', key('given_up'), id)
end

local events, looks = { 0 }, 0

local function look_at(round_robin, most)
  while #events <= limit and looks < LOOKS_MAX do
    local count = math.min(limit - #events + 1, LOOKS_MAX - looks)
    local workspaces = redis.call('ZRANGEBYSCORE', round_robin, '-inf', digits(now_us), 'LIMIT', 0, count)
    if #workspaces == 0 then return end
    looks = looks + #workspaces
    for _, workspace in ipairs(workspaces) do
      local id = take_from(workspace, round_robin, most)
      if id then table.insert(events, begin_attempt(id)) end
    end
  end
end

look_at(event_round_robin('well'), per_workspace)
look_at(event_round_robin('ailing'), per_ailing)
if #events > limit or looks >= LOOKS_MAX then events[1] = 1 end
return events
