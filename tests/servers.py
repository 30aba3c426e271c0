"""A real PostgreSQL and a real Spark for tests, started when first asked for and always stopped.

Loaded as a plugin by ``conftest.py``; the fixtures `postgres` and `spark` serve every test folder.
Where the programs are missing, tests that need them are skipped and say why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

try:
    import pwd
except ImportError:  # Windows, where no server is started
    pwd = None  # type: ignore[assignment]

TIME_ZONE = "America/New_York"
"""Of both servers: nothing may depend on their being in UTC."""

RULES = "org.apache.spark.sql.catalyst.optimizer"


@dataclass(frozen=True)
class PostgresServer:
    """A cluster of our own that listens on a local socket only."""

    binaries: Path
    folder: Path
    user: str

    @property
    def url(self) -> str:
        """Where to connect; the password is there to be kept out of messages."""
        socket = quote(str(self.folder), safe="")
        return f"postgresql://{self.user}:open-sesame@/postgres?host={socket}"

    def connect(self) -> Any:
        """A connection of the test's own, which commits each statement."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def control(self, *arguments: str) -> None:
        """Run ``pg_ctl`` as the owner of the cluster."""
        data = self.folder / "data"
        run_as(self.user, [str(self.binaries / "pg_ctl"), "-D", str(data), "-w", *arguments])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    with running_postgres() as server:
        yield server


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of our own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra `postgres`)")
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server: initdb is neither in PATH nor in /usr/lib/postgresql")
    user = postgres_user()
    if user is None:
        pytest.skip("PostgreSQL refuses to run as root, and neither `postgres` nor `nobody` exists")
    # Socket paths are limited to about a hundred bytes, so not below pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="sfumato-pg-"))
    server = PostgresServer(binaries, folder, user)
    try:
        shutil.chown(folder, user)
        folder.chmod(0o755)
        data = str(folder / "data")
        run_as(user, [str(binaries / "initdb"), "-D", data, "-A", "trust", "-U", user,
                      "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])  # fmt: skip
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off "
            f"-c timezone={TIME_ZONE} -c shared_buffers=32MB -c max_connections=40"
        )
        server.control("-l", str(folder / "log"), "-o", options, "start")
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.control("-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_schema(postgres: PostgresServer) -> Iterator[str]:
    """An empty schema that goes away with everything in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield name
    with postgres.connect() as connection:
        connection.execute("SET lock_timeout = '10s'")  # somebody forgot to close an engine
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark session."""
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra `spark`)")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java for Spark: neither `java` in PATH nor JAVA_HOME")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # of the executors, else any python3 in PATH
    folder = tmp_path_factory.mktemp("spark")
    quiet = folder / "log4j2.properties"
    quiet.write_text("rootLogger.level = off\n")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sfumato tests")
        .config(
            "spark.driver.extraJavaOptions",
            # Tests are over before the second compiler pays, or the proof that classes are sound;
            # with room for them all, nothing is cleared away while they are loaded.
            f"-Dlog4j2.configurationFile=file:{quiet} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
            "-XX:MetaspaceSize=256m -Xmn384m",
        )
        # Tables of tests are small: reading a plan is quicker than compiling it.
        .config("spark.sql.codegen.wholeStage", False)
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Nor is a plan, each time it is looked at, the place to compute with all its rows.
        .config("spark.sql.optimizer.excludedRules", f"{RULES}.ConvertToLocalRelation")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", TIME_ZONE)
        .config("spark.sql.shuffle.partitions", 2)
        # Conditions that follow from others spare no work here, nor do parts that are packed.
        .config("spark.sql.constraintPropagation.enabled", False)
        .config("spark.shuffle.compress", False)
        .config("spark.shuffle.spill.compress", False)
        .config("spark.broadcast.compress", False)
        # With two small parts there is nothing to plan anew after each step.
        .config("spark.sql.adaptive.enabled", False)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.python.daemon.module", "spark_daemon")
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parent))
        .getOrCreate()
    )
    yield session
    del os.environ["PYSPARK_PYTHON"]
    session.stop()
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        process = gateway.proc
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=60)


def postgres_binaries() -> Path | None:
    """The folder of the newest server programs."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])
    )
    return folders[-1].parent if folders else None


def postgres_user() -> str | None:
    """Whom the server runs as: ourselves unless we are root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


def run_as(user: str, command: list[str]) -> None:
    """Run a command as a user, in a folder this user may enter."""
    ours = pwd.getpwuid(os.geteuid()).pw_name == user
    done = subprocess.run(
        command,
        user=None if ours else user,
        group=None if ours else pwd.getpwnam(user).pw_gid,
        extra_groups=None if ours else [],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}")
