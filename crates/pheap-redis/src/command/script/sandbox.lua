-- The environment of scripts, and the protection of its tables.
--
-- LuaJIT has no read-only tables. So scripts get empty proxy tables: a metatable looks absent fields up in
-- the table behind, and refuses new fields. Functions that ignore metatables (`rawset`, `table.insert`, ...)
-- are replaced by ones that check for proxies.

local native, is_eval = ...

local error, getmetatable, next, pcall, rawget, rawset = error, getmetatable, next, pcall, rawget, rawset
local create, resume, select, setmetatable = coroutine.create, coroutine.resume, select, setmetatable
local tonumber, tostring, type, xpcall, load, floor = tonumber, tostring, type, xpcall, load, math.floor
local lower, find, sub, gsub, format = string.lower, string.find, string.sub, string.gsub, string.format
local concat, sort = table.concat, table.sort

local globals = getfenv(0)

-- From proxy tables to the tables behind them.
local behind = setmetatable({}, { __mode = "k" })

local READ_ONLY = "Attempt to modify a readonly table"

local function refuse()
    error(READ_ONLY, 2)
end

local function guard(content)
    local shown = setmetatable({}, { __index = content, __newindex = refuse })
    behind[shown] = content
    return shown
end

local missing = {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
}

-- Raises an error in the form of an error of a command.
local function raise(text)
    error({ err = "ERR " .. text }, 0)
end

-- ## Functions of Lua

-- `getfenv` and `setfenv`, for example, would let a script change the environment of other scripts.
for _, name in next, { "dofile", "loadfile", "print", "require", "module", "package", "debug", "io", "os", "getfenv", "setfenv", "newproxy" } do
    globals[name] = nil
end

-- Extensions of LuaJIT that Lua 5.1 does not have. `table.move` ignores metatables.
globals.table.move, globals.coroutine.isyieldable = nil, nil

-- ## Recursion in C
--
-- LuaJIT limits the stack of each coroutine, but not the nesting of C functions that call Lua functions. Each
-- level needs some of the thread's stack; `string.gsub` needs 9 KiB. So calls of these functions are counted
-- here, over all coroutines. Each is a protected call, which restores the depth afterwards, so the depth is
-- right after an error, too.

-- The limit of Lua 5.1.
local DEEPEST = 200
local depth = 0

-- Restores the depth after a protected call. If the script must end, raises a caught error again.
local function returned(level, ok, ...)
    depth = level
    if ok then
        return ok, ...
    elseif native.is_aborted() then
        error((...), 0)
    end
    return false, native.translate((...))
end

local function protected(...)
    local level = depth
    if level >= DEEPEST then
        return false, "C stack overflow"
    end
    depth = level + 1
    return returned(level, pcall(...))
end

local function caught(ok, ...)
    if ok then
        return true, ...
    end
    local problem = ...
    if type(problem) == "table" then
        local text = problem.err
        if type(text) == "string" or type(text) == "number" then
            problem = text
        end
    end
    return false, problem
end

function globals.pcall(...)
    return caught(protected(...))
end

-- The handler is called after the error. While the hook raises an error, the hook is not called, so nothing
-- would end a handler that runs for ever.
local function handled_by(handler, ok, ...)
    if ok or depth >= DEEPEST then
        return ok, ...
    end
    local is_handled, result = protected(handler, (...))
    if is_handled then
        return false, result
    end
    return false, "error in error handling"
end

function globals.xpcall(f, handler)
    return handled_by(handler, protected(f))
end

local function returned_or_raised(ok, ...)
    if ok then
        return ...
    end
    local problem = ...
    -- A C function in a protected call does not know the place in the script.
    local is_placed = type(problem) ~= "string" or find(problem, "^[^:]*:%d+: ")
    error(problem, is_placed and 0 or 2)
end

local function deeper(f, ...)
    return returned_or_raised(protected(f, ...))
end

local function resume_deeper(...)
    local level = depth
    if type((...)) ~= "thread" then
        return resume(...)
    elseif level >= DEEPEST then
        return false, "C stack overflow"
    end
    depth = level + 1
    return returned(level, resume(...))
end

globals.coroutine.resume = resume_deeper

local function unwrapped(ok, ...)
    if not ok then
        error((...), 2)
    end
    return ...
end

function globals.coroutine.wrap(f)
    if type(f) ~= "function" then
        error("bad argument #1 to 'wrap' (Lua function expected)", 2)
    end
    local thread = create(f)
    return function(...)
        return unwrapped(resume_deeper(thread, ...))
    end
end

function globals.string.gsub(...)
    local _, _, by = ...
    if type(by) == "function" or type(by) == "table" then
        return deeper(gsub, ...)
    end
    return gsub(...)
end

-- Calls `__tostring` of tables.
function globals.string.format(...)
    for i = 2, select("#", ...) do
        if type((select(i, ...))) == "table" then
            return deeper(format, ...)
        end
    end
    return format(...)
end

function globals.table.sort(...)
    if type((...)) == "table" then
        return deeper(sort, ...)
    end
    return sort(...)
end

-- ## Read-only tables

function globals.rawget(of, name)
    return rawget(behind[of] or of, name)
end

function globals.rawset(of, name, value)
    if behind[of] then
        error(READ_ONLY, 0)
    end
    return rawset(of, name, value)
end

function globals.next(of, name)
    return next(behind[of] or of, name)
end

local pairs = globals.pairs

function globals.pairs(of)
    local content = behind[of]
    if not content then
        return pairs(of)
    end
    local copy = {}
    for name, value in next, content do
        copy[name] = value
    end
    return next, copy, nil
end

local strings, of_globals

function globals.getmetatable(of)
    if of == strings.of then
        return of_globals
    elseif behind[of] then
        return nil
    elseif type(of) == "string" then
        return strings.shown
    end
    return getmetatable(of)
end

function globals.setmetatable(of, metatable)
    if behind[of] then
        error(READ_ONLY, 0)
    end
    return setmetatable(of, metatable)
end

-- `table.insert` moves all elements from the position on, in C, where it cannot be interrupted. From a
-- position far before the first element, or one that is no 32-bit integer, that could take very long.
local insert = globals.table.insert
function globals.table.insert(of, at, ...)
    if select("#", ...) == 0 then
        return insert(of, at)
    elseif type(at) == "number" and not (at > -1e6 and at < 2 ^ 31) then
        error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    return insert(of, at, ...)
end

for _, name in next, { "insert", "remove", "sort", "setn" } do
    local f = globals.table[name]
    globals.table[name] = f
        and function(of, ...)
            if behind[of] then
                error(READ_ONLY, 0)
            end
            return f(of, ...)
        end
end

-- Returns the result of `load`. If the script must end, raises the error of `load`. The callers load source
-- text only: compiled code could do anything.
local function loaded(f, problem)
    if f then
        return f
    elseif native.is_aborted() then
        error(problem, 0)
    end
    return nil, native.translate(problem)
end

function globals.loadstring(text, name)
    if type(text) == "function" then
        error("bad argument #1 to 'loadstring' (string expected, got function)", 2)
    end
    return loaded(load(text, name, "t"))
end

function globals.load(pieces, name)
    if type(pieces) ~= "function" then
        error("bad argument #1 to 'load' (function expected, got " .. type(pieces) .. ")", 2)
    end
    return loaded(deeper(load, pieces, name, "t"))
end

-- Functions of Lua 5.1 that LuaJIT does not have.
globals.math.mod = math.fmod
globals.string.gfind = string.gmatch

globals.math.random = native.random
globals.math.randomseed = native.randomseed
for name, functions in next, native.libraries do
    globals[name] = functions
end

-- ## `redis`

-- The function that runs commands, while a script runs.
local host
local PCALL, INTERRUPT, RESP, KNOWS = 1, 2, 3, 4

local function answered(is_error, value)
    if is_error then
        error(value, 0)
    end
    return value
end

local function ask(what, ...)
    if not host then
        raise("redis.call/pcall can only be called inside a script invocation")
    end
    return answered(host(what, ...))
end

-- `redis.call` is a new function for each run of a script.
local redis = {}

function redis.pcall(...)
    return ask(PCALL, ...)
end

function redis.setresp(...)
    if select("#", ...) ~= 1 then
        raise("redis.setresp() requires one argument.")
    end
    local version = tonumber((...))
    if version ~= 2 and version ~= 3 then
        raise("RESP version must be 2 or 3.")
    end
    ask(RESP, version)
end

function redis.set_repl(...)
    if select("#", ...) ~= 1 then
        raise("redis.set_repl() requires two arguments.")
    end
    local flags = floor(tonumber((...)) or 0)
    if flags < 0 or flags > 3 then
        raise("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
    end
end

redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

function redis.acl_check_cmd(...)
    return ask(KNOWS, ...)
end

function redis.sha1hex(...)
    if select("#", ...) ~= 1 then
        raise("wrong number of arguments")
    end
    local text = ...
    return native.sha1hex(type(text) == "number" and tostring(text) or type(text) == "string" and text or "")
end

local function is_one_string(...)
    return select("#", ...) == 1 and type((...)) == "string"
end

function redis.error_reply(...)
    if not is_one_string(...) then
        return { err = "ERR wrong number or type of arguments" }
    end
    local text = gsub((...), "^%-", "")
    local at = find(text, " ", 1, true)
    local code, rest = "ERR", text
    if at then
        code, rest = sub(text, 1, at - 1), sub(text, at + 1)
    end
    return { err = code .. " " .. gsub(gsub(rest, "^[\r\n]+", ""), "[\r\n]+$", "") }
end

function redis.status_reply(...)
    if not is_one_string(...) then
        return { err = "ERR wrong number or type of arguments" }
    end
    return { ok = (...) }
end

local common = {
    REDIS_VERSION = native.version,
    REDIS_VERSION_NUM = native.version_num,
    LOG_DEBUG = 0,
    LOG_VERBOSE = 1,
    LOG_NOTICE = 2,
    LOG_WARNING = 3,
}

function common.log(...)
    local n = select("#", ...)
    if n < 2 then
        raise("redis.log() requires two arguments or more.")
    end
    local level = tonumber((...))
    if not level then
        raise("First argument must be a number (log level).")
    elseif level < 0 or level > 3 then
        raise("Invalid debug level.")
    end
    local texts = {}
    for i = 2, n do
        local text = select(i, ...)
        if type(text) == "string" or type(text) == "number" then
            texts[#texts + 1] = text
        end
    end
    native.log(level, concat(texts, " "))
end

for name, value in next, common do
    redis[name] = value
end

if is_eval then
    function redis.breakpoint()
        return false
    end

    function redis.debug() end

    function redis.replicate_commands()
        return true
    end
end

globals.redis = redis

-- ## Libraries of functions

-- Functions registered so far by the library that is being loaded; after the load, until the next call of a
-- function, those of the last one.
local loading

local function is_text(value)
    return type(value) == "string" or type(value) == "number"
end

local function named(arguments)
    if type(arguments) ~= "table" then
        raise(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments)."
        )
    end
    local f = { flags = {} }
    for name, value in next, arguments do
        if not is_text(name) then
            raise("named argument key given to redis.register_function is not a string")
        end
        local option = lower(name)
        if option == "function_name" or option == "description" then
            if not is_text(value) then
                raise(option .. " argument given to redis.register_function must be a string")
            end
            f[option == "description" and option or "name"] = tostring(value)
        elseif option == "callback" then
            if type(value) ~= "function" then
                raise("callback argument given to redis.register_function must be a function")
            end
            f.callback = value
        elseif option == "flags" then
            if type(value) ~= "table" then
                raise("flags argument to redis.register_function must be a table representing function flags")
            end
            local i = 1
            while value[i] ~= nil do
                local flag = is_text(value[i]) and lower(value[i])
                if not flag or not native.is_flag(flag) then
                    raise("unknown flag given")
                end
                f.flags[i] = flag
                i = i + 1
            end
        else
            raise("unknown argument given to redis.register_function")
        end
    end
    if not f.name then
        raise("redis.register_function must get a function name argument")
    elseif not f.callback then
        raise("redis.register_function must get a callback argument")
    end
    return f
end

local function positional(name, callback)
    if not is_text(name) then
        raise("first argument to redis.register_function must be a string")
    elseif type(callback) ~= "function" then
        raise("second argument to redis.register_function must be a function")
    end
    return { name = tostring(name), callback = callback, flags = {} }
end

local for_libraries = {}

function for_libraries.register_function(...)
    if not loading then
        raise("redis.register_function can only be called on FUNCTION LOAD command")
    end
    local n = select("#", ...)
    if n < 1 or n > 2 then
        raise("wrong number of arguments to redis.register_function")
    end
    local f = n == 1 and named(...) or n == 2 and positional(...)
    if not native.is_name(f.name) then
        raise(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
        )
    end
    for i = 1, #loading do
        if lower(loading[i].name) == lower(f.name) then
            raise("Function already exists in the library")
        end
    end
    loading[#loading + 1] = f
end

for name, value in next, common do
    for_libraries[name] = value
end

local library = setmetatable({ redis = guard(setmetatable(for_libraries, missing)) }, missing)

-- ## The environment of scripts

local content = {}
for name, value in next, globals do
    content[name] = value
end
for _, name in next, { "string", "table", "math", "coroutine", "redis", "bit", "cjson", "cmsgpack", "struct" } do
    content[name] = guard(content[name])
end
setmetatable(content, missing)
local environment = guard(content)
content._G = environment
strings = { of = environment, shown = guard({ __index = content.string }) }
of_globals = guard({ __index = environment })
local of_environment = getmetatable(environment)
behind[globals] = content

local function handler(problem)
    problem = native.translate(problem)
    if type(problem) ~= "table" or behind[problem] then
        problem = { err = "ERR " .. tostring(problem) }
    end
    local source, line = native.where()
    if source then
        rawset(problem, "source", source)
        rawset(problem, "line", line)
    end
    return problem
end

-- Lua may not have called the handler, for example because its stack was exhausted.
local function handled(ok, result)
    if not ok and type(result) ~= "table" then
        result = handler(result)
    end
    return ok, result
end

local interface = { environment = environment }

function interface.interrupt()
    if host then
        host(INTERRUPT)
    end
end

function interface.eval(f, with, call, keys, arguments)
    depth = 0
    host = with
    redis.call = call
    rawset(content, "KEYS", keys)
    rawset(content, "ARGV", arguments)
    local ok, result = handled(xpcall(f, handler))
    host = nil
    return ok, result
end

function interface.call(f, with, call, keys, arguments)
    of_environment.__index, loading = content, nil
    depth = 0
    host = with
    redis.call = call
    local ok, result = handled(xpcall(function()
        return f(keys, arguments)
    end, handler))
    host = nil
    return ok, result
end

-- Does not reset the variables that it sets, because a load that takes too long may end anywhere: `call`
-- resets them.
function interface.load(f)
    depth, host, loading = 0, nil, {}
    of_environment.__index = library
    local ok, problem = pcall(f)
    if ok then
        return loading
    end
    problem = native.translate(problem)
    if type(problem) == "table" then
        return tostring(problem.err)
    end
    return "ERR " .. tostring(problem)
end

return interface
