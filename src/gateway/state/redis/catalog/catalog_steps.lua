-- What the scripts of the catalog share. It runs in front of them, and is none by itself.
--
-- Which keys a script will touch shows only while it runs, so it is not told them. They begin with KEYS[1], and with its
-- hash tag, so they are where it is. KEYS[2] is never written: a cluster refuses a script as a whole while its slot moves
-- from node to node and one of its keys is not there. That one never is, so no script finds half of a catalog.
--
-- The first write of a script is one that a full server refuses, and what it refuses once it would refuse throughout:
-- nothing is done by half.
--
-- Records go by their ids, such as `route/acme.voice`; an owner is a workspace, empty for what is the platform's. What a
-- record holds is JSON that nothing here reads: written back through Lua it would lose empty lists and large numbers.
--
-- What the catalog is made of:
--   (itself)                 hash: count and changed_at of the last change of what is published
--   owners                   hash: whose each record is that there ever was
--   drafts                   hash: `<revision> <epoch milliseconds> <JSON>`
--   revisions                hash: the last revision that a draft of the record was given
--   published                hash: `<number> <epoch milliseconds> <JSON>`, the version in force
--   numbers                  hash: of the last version of the record
--   versions:<owner>:<id>    sorted set: all versions as in `published`, by their numbers
--   models                   JSON of the document of facts about models that was put beside the one of the program
--   audit                    hash: `<number> <epoch milliseconds> <JSON>`, the lines by their numbers
--   audit:<workspace>        sorted set: the numbers of its lines
--   change:<token>           what a change was answered, as long as it may be sent again
--   note:<token>             that a line was added, for as long

local catalog = KEYS[1]
local time = redis.call('TIME')

-- Whole and without an exponent.
local function digits(number) return string.format('%.0f', number) end
local function key(...) return table.concat({ catalog, ... }, ':') end
local function stamped(number, json)
  return table.concat({ digits(number), digits(time[1] * 1000 + math.floor(time[2] / 1000)), json }, ' ')
end
local function field(name, id) return redis.call('HGET', key(name), id) end

-- Adds a line to the audit list; an empty workspace: it is of none.
local function add_line(workspace, json)
  local number = redis.call('HLEN', key('audit')) + 1
  redis.call('HSET', key('audit'), digits(number), stamped(number, json))
  if workspace ~= '' then redis.call('ZADD', key('audit', workspace), digits(number), digits(number)) end
end

-- The version of what is published names the moment besides the count: after a failover that lost a change the next one
-- has the same count, and is another change.
local function version_of(count, changed_at) return (count or '0') .. '-' .. (changed_at or '0') end
local function version() return version_of(unpack(redis.call('HMGET', catalog, 'count', 'changed_at'))) end

